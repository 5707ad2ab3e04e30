// A node that goes away under twenty CronJobs: one alert that names the node and how many monitors it concerns, and after its return
// alerts of those alone that are still missing. The kubelet of that node is the test; schedulers and controllers are real. The tests
// run in this order.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lowerMinimums } from '../../src/dev/control-plane/development-cluster.ts';
import { applyCrds } from '../../src/install/apply-crds.ts';
import { connectCluster } from '../../src/install/connect-cluster.ts';
import { type AlertBody, ok, type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts';
import { waitFor } from '../support/wait-for.ts';
import { CHART, type Cluster, HOST_ADDRESS, IMAGE, startCluster } from './cluster.ts';
import { type MonitorRecord, type MonitorRecords, recordsOf } from './monitor-records.ts';
import { callback, monitor, restrictedNamespace } from './objects.ts';
import { type PlayedNode, startPlayedNode } from './played-node.ts';
import { useProduct } from './product.ts';

const SYSTEM = 'beatkeeper';
const TEAM = 'payments';
const NODE = 'worker-2';
/** A busy machine takes long to start a pod. */
const GRACE_SECONDS = 40;
const JOBS = Array.from({ length: 20 }, (_, n) => `job-${n + 1}`);
const LABEL = 'cronjob';

/** What alerts and incidents say of the cause. */
const CAUSE = { cause: 'node_not_ready', object: NODE };
const SENTENCE = `Node ${NODE} is not ready; it concerns ${JOBS.length} monitors.`;
type Alert = AlertBody & { data: { cause?: object; incident: { summary: string } } };

let cluster: Cluster;
let receiver: Receiver;
let records: MonitorRecords;
let node: PlayedNode;

beforeAll(async () => {
  cluster = await startCluster();
  receiver = await startReceiver(ok, { host: HOST_ADDRESS });
  records = recordsOf(useProduct(cluster, SYSTEM, TEAM), TEAM);
  node = await startPlayedNode(cluster.kubeconfig, NODE);
  await cluster.apply(restrictedNamespace(SYSTEM), restrictedNamespace(TEAM));
  const lowered = { extraEnv: [{ name: 'BEATKEEPER_MINIMUM_INTERVAL_SECONDS', value: `${GRACE_SECONDS}` }] };
  const callbacks = { allowedPrivateDestinations: [`${HOST_ADDRESS}/32`] };
  await cluster.helmWith(
    { image: { tag: IMAGE.first }, callbacks, api: lowered, sweeper: lowered },
    ...['install', 'beatkeeper', CHART, '--namespace', SYSTEM, '--wait', '--timeout', '5m'],
  );
  const connection = connectCluster(cluster.kubeconfig);
  await applyCrds(connection, (crd) => lowerMinimums(crd, GRACE_SECONDS)).finally(() =>
    connection.transport.close(),
  );
});
afterAll(async () => {
  await node?.close();
  await receiver?.close();
  await cluster?.down();
});

function cronJob(name: string): object {
  const metadata = { name, namespace: TEAM };
  const containers = [
    {
      name: 'main',
      image: `${IMAGE.repository}:${IMAGE.first}`,
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    },
  ];
  const pod = {
    ...{ restartPolicy: 'Never', containers, ...node.podFields },
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  };
  const template = { metadata: { labels: { [LABEL]: name } }, spec: pod };
  const spec = {
    ...{ schedule: '* * * * *', timeZone: 'Etc/UTC', concurrencyPolicy: 'Forbid' },
    jobTemplate: { spec: { template } },
  };
  return { apiVersion: 'batch/v1', kind: 'CronJob', metadata, spec };
}

const monitorOf = (name: string) =>
  monitor(name, TEAM, {
    graceSeconds: GRACE_SECONDS,
    callback: { kind: 'named', callbackRef: { name: 'oncall' } },
    workloadRef: { apiVersion: 'batch/v1', kind: 'CronJob', name },
  });

async function alerts(): Promise<Alert[]> {
  const secret = await cluster.secret('oncall-signing', 'secret', TEAM);
  return receiver.requests.map((request) => verifyWebhook(request, secret) as Alert);
}

/** What each alert is about, by the name of its monitor. */
async function alertLines(): Promise<string[]> {
  const names = new Map([...(await records.read())].map(([name, { monitorId }]) => [monitorId, name]));
  return (await alerts()).map(({ type, data }) => `${names.get(data.incident.monitorId)} ${type}`);
}

const untilAll = (what: string, is: (record: MonitorRecord | undefined) => boolean) =>
  waitFor(
    async () => {
      const found = await records.read();
      return JOBS.every((name) => is(found.get(name)));
    },
    { what, timeoutMs: 300_000, intervalMs: 1_000 },
  );

/** How many have an incident that is not over, and tell nobody of it because of the cause. */
async function suppressed(): Promise<string[]> {
  const found = await Promise.all(
    JOBS.map(async (name) => ({ name, incident: (await records.incidentsOf(name)).at(-1) })),
  );
  return found.flatMap(({ name, incident }) => {
    if (incident?.suppressedBy === undefined) return [];
    expect(incident.suppressedBy, name).toEqual(CAUSE);
    return [name];
  });
}

describe('a node that goes away under twenty CronJobs', () => {
  let first: string;

  it('their Jobs run there', async () => {
    await cluster.apply(callback('oncall', TEAM, receiver.url), ...JOBS.map(monitorOf), ...JOBS.map(cronJob));
    await untilAll('each has told its start', (record) => record?.observations.join() === '1 start');
    expect(await alerts()).toEqual([]);
  });

  it('is one alert, which names the node and how many monitors it concerns', async () => {
    node.goAway();
    await waitFor(async () => !(await node.isReady()), {
      ...{ what: 'the node is not ready', timeoutMs: 300_000, intervalMs: 1_000 },
    });
    await untilAll('each is missed', (record) => record?.incidents.join() === 'missed_deadline open');
    await waitFor(async () => (await suppressed()).length === JOBS.length - 1, {
      ...{ what: 'all but one are suppressed', timeoutMs: 300_000, intervalMs: 1_000 },
    });
    await waitFor(async () => (await alerts()).length > 0, { what: 'the alert', timeoutMs: 300_000 });
    const found = await alerts();
    expect(found.map(({ type }) => type)).toEqual(['incident.opened']);
    expect(found[0]?.data.incident.summary).toContain(SENTENCE);
    expect(found[0]?.data.cause).toEqual({ ...CAUSE, monitors: JOBS.length });
    const [line = ''] = await alertLines();
    first = line.split(' ')[0] ?? '';
    expect(await suppressed()).not.toContain(first);
    expect(JOBS).toContain(first);
  });

  it('after its return, those alert that are still missing, and nobody else', async () => {
    const missing = JOBS.filter((name) => name !== first).slice(0, 2);
    node.endPods(({ metadata }) => !missing.includes(metadata.labels?.[LABEL] ?? ''));
    node.comeBack();
    const over = ['missed_deadline recovered'];
    for (const name of JOBS.filter((one) => !missing.includes(one))) await records.untilIncidents(name, over);
    await waitFor(async () => (await alerts()).length >= 2 + missing.length, {
      ...{ what: 'the alerts of the missing', timeoutMs: 300_000, intervalMs: 1_000 },
    });
    expect((await alertLines()).sort()).toEqual(
      [
        `${first} incident.opened`,
        `${first} incident.recovered`,
        ...missing.map((name) => `${name} incident.opened`),
      ].sort(),
    );
    for (const name of missing) {
      const [incident] = await records.incidentsOf(name);
      expect(incident?.suppressedBy).toBeUndefined();
      const types = (await records.timelineOf(incident)).map(({ type }) => type);
      expect(types.filter((type) => type !== 'delivery')).toEqual(['opened', 'suppressed', 'released']);
    }
  });
});
