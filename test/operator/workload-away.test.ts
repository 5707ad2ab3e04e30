// Jobs that come and go while no operator is there, while two are, while the API is away, and while their namespace goes.
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatSeconds, type KubeResource } from '../../src/kube/kube-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster, namespaces } from '../kube/cluster.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  ago,
  cronJobRef,
  type JobFixture,
  jobFixture,
  timesBefore,
  type WholeObject,
} from './job-fixture.ts';
import { type OperatorFixture, type OperatorOptions, openOperatorFixture } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };
const HOUR = 3600;

describe.skipIf(!hasCluster)('the Jobs of a CronJob', () => {
  let fixture: OperatorFixture;
  let jobs: JobFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    jobs = jobFixture(fixture);
  });
  afterAll(() => fixture.close());

  /** A Monitor that has been there for some hours. */
  const watched = async (name: string, options: OperatorOptions = {}) => {
    const cronJob = await jobs.createCronJob(name);
    await fixture.createMonitor(name, { ...disabled, workloadRef: cronJobRef(name) });
    const operator = await fixture.startOperator(options);
    await fixture.monitorBecomes(name, 'Ready', 'True');
    return { cronJob, operator };
  };
  const setReported = (name: string, workload: object) => {
    const ref = { namespace: fixture.namespace, name };
    return fixture.kube.client.mergePatch(MONITORS, ref, { status: { workload } }, { subresource: 'status' });
  };
  const isRecorded = (name: string, count: number) =>
    waitFor(async () => (await fixture.monitor(name)).status?.workload?.runs?.length === count, {
      what: `the status of ${name} has ${count} runs`,
    });

  it('that came and went while no operator was there are told as far as anything of them is left', async () => {
    const { cronJob, operator } = await watched('away');
    await jobs.createJob('away-open', cronJob);
    await jobs.startJob('away-open');
    await jobs.beats('away', ['start']);
    await isRecorded('away', 1);
    await operator.stop();
    await setReported('away', { since: ago(3 * HOUR) });

    const before = timesBefore(Date.now());
    // One ended and is still there; one ended well and one badly, and both are gone.
    await jobs.createJob('away-there', cronJob);
    await jobs.startJob('away-there', before(HOUR));
    await jobs.failJob('away-there', 'BackoffLimitExceeded', { at: before(HOUR - 60) });
    await jobs.deleteJob('away-open');
    await jobs.setCronJobStatus('away', { lastScheduleTime: before(1900), lastSuccessfulTime: before(1800) });

    const next = await fixture.startOperator();
    const all = await jobs.beats('away', ['start', 'start', 'log', 'success', 'log']);
    expect(all[2]).toMatchObject({
      runId: all[1]?.runId,
      message: 'Job away-there failed: BackoffLimitExceeded. A later run has succeeded since.',
    });
    expect(all[3]).toMatchObject({
      observedAt: new Date(before(1800)).toISOString(),
      message: 'A Job of CronJob away completed. It is gone, and no operator saw it.',
    });
    expect(all[4]).toMatchObject({
      runId: all[0]?.runId,
      message: 'The end of this run was not seen: its Job is gone, and no operator was there.',
    });
    // Nobody is alerted of a failure that is over.
    const { status } = await fixture.monitor('away');
    const query = { monitorId: status?.monitorId ?? '' };
    expect((await fixture.api.expectSuccess('listIncidents', { query })).body.items).toEqual([]);
    await next.stop();
    // A third one has nothing to add.
    const last = await fixture.startOperator();
    await jobs.createJob('away-last', cronJob);
    await jobs.startJob('away-last');
    await jobs.completeJob('away-last');
    await jobs.beats('away', [...all.map(({ kind }) => kind), 'start', 'success']);
    await last.stop();
  });

  it('count once where the status has forgotten them, also when the key of their beats holds no more', async () => {
    const { cronJob, operator } = await watched('old');
    await operator.stop();
    await setReported('old', { since: ago(5 * HOUR), runs: [] });
    const job = await jobs.createJob('old-1', cronJob);
    await jobs.startJob('old-1', ago(3 * HOUR));
    await jobs.completeJob('old-1', ago(2 * HOUR));
    // As an operator has sent them hours ago, under keys that the API has forgotten.
    const { url = '' } = (await fixture.secret('old-beat')) ?? {};
    for (const status of ['start', 'success']) {
      const observedAt = ago((status === 'start' ? 3 : 2) * HOUR);
      const body = JSON.stringify({ status, runId: job.metadata.uid, observedAt });
      const headers = { 'content-type': 'application/json' };
      const address = `${fixture.apiFixture.url}${new URL(url).pathname}`;
      expect((await fetch(address, { method: 'POST', headers, body })).status).toBe(200);
    }
    await fixture.apiFixture.pool.query(
      "update observations set received_at = received_at - interval '2 hours' where run_id = $1",
      [job.metadata.uid],
    );
    const next = await fixture.startOperator();
    await jobs.createJob('old-2', cronJob);
    await jobs.startJob('old-2');
    await jobs.completeJob('old-2');
    await waitFor(async () => (await jobs.observations('old')).length >= 4, { what: 'the next run' });
    expect(next.calls.get('listObservations')).toBe(2);
    expect((await jobs.observations('old')).map(({ kind }) => kind)).toEqual([
      'start',
      'success',
      'start',
      'success',
    ]);
    await next.stop();
  });

  it('count once where the operator died before the status had their end, and nothing is left of them', async () => {
    const { cronJob, operator } = await watched('forgotten');
    const before = timesBefore(Date.now());
    const job = await jobs.createJob('forgotten-1', cronJob);
    await jobs.startJob('forgotten-1', before(300));
    await jobs.completeJob('forgotten-1', before(200));
    await jobs.beats('forgotten', ['start', 'success']);
    await jobs.deleteJob('forgotten-1');
    await jobs.setCronJobStatus('forgotten', { lastSuccessfulTime: before(200) });
    await operator.stop();
    const open = { uid: job.metadata.uid, started: before(300), ended: null };
    await setReported('forgotten', { since: before(3 * HOUR), runs: [open], lastSuccessfulTime: null });
    const next = await fixture.startOperator();
    await waitFor(() => (next.calls.get('listObservations') ?? 0) >= 2, { what: 'it has looked for both' });
    await jobs.createJob('forgotten-2', cronJob);
    await jobs.startJob('forgotten-2');
    await jobs.completeJob('forgotten-2');
    await jobs.beats('forgotten', ['start', 'success', 'start', 'success']);
    await next.stop();
  });

  it('count once while two operators lead at a time', async () => {
    const { cronJob, operator } = await watched('twice');
    const other = await fixture.startOperator();
    for (const name of ['twice-1', 'twice-2', 'twice-3']) {
      await jobs.createJob(name, cronJob);
      await jobs.startJob(name, ago(2));
      await jobs.failJob(name, 'BackoffLimitExceeded');
    }
    await waitFor(async () => (await jobs.observations('twice')).length >= 6, { what: 'all runs' });
    await jobs.createJob('twice-4', cronJob);
    await jobs.startJob('twice-4', ago(2));
    const sent = () => (operator.calls.get('sendBeat') ?? 0) + (other.calls.get('sendBeat') ?? 0);
    await waitFor(async () => (await jobs.observations('twice')).length >= 7 && sent() >= 14, {
      what: 'both operators have sent all',
    });
    const runs = (await jobs.observations('twice')).map(({ kind, runId }) => `${kind} ${runId}`);
    expect(runs).toHaveLength(7);
    expect(new Set(runs).size).toBe(7);
    await operator.stop();
    await other.stop();
  });

  it('are told when the API is back that was away while they ran', async () => {
    const proxy = await TcpProxy.start(fixture.apiFixture.url);
    try {
      const { cronJob, operator } = await watched('outage', { apiUrl: proxy.url });
      await proxy.refuse();
      await jobs.createJob('outage-1', cronJob);
      await jobs.startJob('outage-1', ago(4));
      await jobs.completeJob('outage-1');
      await jobs.deleteJob('outage-1');
      await waitFor(() => (operator.calls.get('sendBeat') ?? 0) >= 2, { what: 'it has tried' });
      expect(await jobs.observations('outage')).toEqual([]);
      await proxy.accept();
      await jobs.beats('outage', ['start', 'success']);
      await operator.stop();
    } finally {
      await proxy.close();
    }
  });

  it('have not failed where their pods are killed because their namespace is deleted', async () => {
    const other = await openOperatorFixture();
    try {
      const theirs = jobFixture(other);
      const cronJob = await theirs.createCronJob('leaving');
      await other.createMonitor('leaving', { ...disabled, workloadRef: cronJobRef('leaving') });
      await other.startOperator({ watchNamespaces: [] });
      await other.monitorBecomes('leaving', 'Ready', 'True');
      const job = await theirs.createJob('leaving-1', cronJob);
      await theirs.startJob('leaving-1', ago(4));
      await theirs.beats('leaving', ['start']);
      await other.kube.client.delete(namespaces, { name: other.namespace });
      const { metadata } = await other.kube.client.get(namespaces, { name: other.namespace });
      const killedAt = formatSeconds(Date.parse(metadata.deletionTimestamp ?? '') + 1000);
      const killed = { startedAt: ago(4), exitCode: 137, finishedAt: killedAt };
      await theirs.setPod('leaving-1-pod', job, killed, { phase: 'Failed' });
      await theirs.failJob('leaving-1', 'BackoffLimitExceeded', { at: killedAt });
      await theirs.beats('leaving', ['start', 'log']);
      const { status } = await other.monitor('leaving');
      expect(status?.openIncidents).toBeUndefined();
    } finally {
      await other.close();
    }
  });

  it('bring the end of the log of a failed container along where the operator may read logs', async () => {
    const kubelet = await startKubelet(fixture);
    try {
      const { cronJob, operator } = await watched('logged', { workloadLogs: true });
      const job = await jobs.createJob('logged-1', cronJob);
      await jobs.setPod(
        'logged-1-pod',
        job,
        { startedAt: ago(9), exitCode: 1, node: kubelet.node },
        { phase: 'Failed' },
      );
      await jobs.failJob('logged-1', 'BackoffLimitExceeded');
      const [, fail] = await jobs.beats('logged', ['start', 'fail']);
      expect(fail?.message).toHaveLength(1024);
      expect(fail?.message).toMatch(
        /^Job logged-1 failed: BackoffLimitExceeded\. .* exit code 1\.\n.*the disk is full$/s,
      );
      expect(kubelet.paths[0]).toContain(`/containerLogs/${fixture.namespace}/logged-1-pod/main`);
      await operator.stop();
    } finally {
      await kubelet.close();
    }
  });

  it('are sent by the operator that signs for their monitor, and by none that is not current', async () => {
    const proxy = await TcpProxy.start(fixture.apiFixture.url);
    try {
      const { operator } = await watched('signed', { apiUrl: proxy.url });
      await waitFor(() => (operator.calls.get('signOperator') ?? 0) > 0, { what: 'a sign of life' });
      const { status } = await fixture.monitor('signed');
      const params = { monitorId: status?.monitorId ?? '' };
      const { body } = await fixture.api.expectSuccess('getMonitor', { params });
      const { rows } = await fixture.apiFixture.pool.query('select operator_id from operator_signs');
      expect(rows.map(({ operator_id }) => operator_id)).toContain(body.beatenBy);
      await operator.stop();
    } finally {
      await proxy.close();
    }
  });
});

interface Kubelet {
  node: string;
  paths: string[];
  close(): Promise<void>;
}

const NODES: KubeResource<WholeObject> = {
  apiVersion: 'v1',
  kind: 'Node',
  plural: 'nodes',
  namespaced: false,
};

/** A node whose kubelet has one log. */
async function startKubelet({ kube, namespace }: OperatorFixture): Promise<Kubelet> {
  const paths: string[] = [];
  const file = (name: string) =>
    readFile(join(import.meta.dirname, `../support/certificates/${name}.pem`), 'utf8');
  const tls = { cert: await file('api-certificate'), key: await file('api-key') };
  const server: Server = createServer(tls, ({ url = '' }, response) => {
    paths.push(url);
    response.end(`${'row copied\n'.repeat(500)}the disk is full\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const node = `node-${namespace}`;
  await kube.client.create(NODES, { metadata: { name: node }, spec: {} });
  const status = {
    addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
  };
  await kube.client.mergePatch(NODES, { name: node }, { status }, { subresource: 'status' });
  return {
    ...{ node, paths },
    async close() {
      await kube.client.delete(NODES, { name: node });
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
