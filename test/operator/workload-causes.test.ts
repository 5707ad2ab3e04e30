// What keeps Jobs from running is told to the API as the cluster shows it: nodes, namespaces, images and quotas.
// Holds: setOperatorCauses.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../src/kube/kube-log.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { CauseWatches } from '../../src/operator/workloads/causes/cause-watches.ts';
import { hasCluster, namespaces } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type CauseFixture, causeFixture, ToldCalls } from './cause-fixture.ts';
import { ago, cronJobRef, type JobFixture, jobFixture } from './job-fixture.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

describe.skipIf(!hasCluster)('an operator tells the API', () => {
  let fixture: OperatorFixture;
  let jobs: JobFixture;
  let cluster: CauseFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    jobs = jobFixture(fixture);
    cluster = causeFixture(fixture, jobs);
  });
  afterAll(() => fixture.close());

  const start = async () => {
    const told = new ToldCalls();
    const operator = await fixture.startOperator(told.clients);
    return { told, operator };
  };
  const idOf = async (name: string) =>
    (await fixture.monitorBecomes(name, 'Ready', 'True')).status?.monitorId;
  /** A Job of a CronJob whose pod runs on a node. */
  const runOn = async (name: string, node: string) => {
    const job = await cluster.begin(name);
    await jobs.setPod(`${name}-pod`, job, { startedAt: ago(0), node });
    await jobs.beats(name, ['start']);
    return job;
  };
  const saysInTheEnd = (name: string, words: string) =>
    waitFor(
      async () => {
        const { conditions = [] } = (await fixture.monitor(name)).status ?? {};
        return conditions.find(({ type }) => type === 'WorkloadWatched')?.message?.endsWith(words);
      },
      { what: `WorkloadWatched of ${name} ends with "${words}"` },
    );
  const end = async (...names: string[]) => {
    for (const name of names) {
      const ref = { namespace: fixture.namespace, name };
      await fixture.kube.client.delete(MONITORS, ref);
      await waitFor(async () => (await fixture.kube.client.find(MONITORS, ref)) === undefined, {
        what: `${name} is gone`,
      });
    }
  };

  it('which node is not ready under a Job, and that it is ready again', async () => {
    const node = await cluster.createNode('tired');
    const { told, operator } = await start();
    await runOn('tired', node);
    await told.become({});
    for (const ready of ['Unknown', 'False']) {
      await cluster.setNode(node, ready);
      const causes = await told.become({ [`node_not_ready ${node}`]: 1 });
      expect(causes).toEqual({ [`node_not_ready ${node}`]: [await idOf('tired')] });
      const words = `Node ${node} is not ready: one alert tells of it for all monitors that it concerns.`;
      await saysInTheEnd('tired', words);
      await cluster.setNode(node, 'True');
      await told.become({});
      await saysInTheEnd('tired', 'The operator sends the beats of the Jobs of CronJob tired.');
    }
    await end('tired');
    await operator.stop();
    await cluster.deleteNode(node);
  });

  it('in one call that a node is gone under the Jobs of twenty CronJobs', async () => {
    const node = await cluster.createNode('shared');
    const other = await cluster.createNode('other');
    const { told, operator } = await start();
    const names = Array.from({ length: 20 }, (_, n) => `shared-${n}`);
    for (const name of [...names, 'elsewhere']) await runOn(name, name === 'elsewhere' ? other : node);
    await told.become({});
    const before = told.causes.length;
    await cluster.deleteNode(node);
    const causes = await told.become({ [`node_not_ready ${node}`]: 20 });
    // Nobody is told of some of them first; once a minute the state before is told again.
    const states = new Set(told.causes.slice(before).map((state) => JSON.stringify(state)));
    states.delete('{}');
    expect([...states]).toEqual([JSON.stringify(causes)]);
    const ids = await Promise.all(names.map(idOf));
    expect(causes[`node_not_ready ${node}`]?.toSorted()).toEqual(ids.toSorted());
    await end(...names, 'elsewhere');
    await told.become({});
    await operator.stop();
    await cluster.deleteNode(other);
  });

  it('nothing of a heartbeat of a node, which wakes nobody', async () => {
    const node = await cluster.createNode('beating');
    const kube = fixture.kube.client;
    const watches = new CauseWatches({ kube, log: silentLog, metrics: undefined, scopes: [undefined] });
    const woken: string[] = [];
    watches.subscribe({
      nodeChanged: (name) => void woken.push(name),
      quotaChanged: () => undefined,
      sightChanged: () => undefined,
    });
    watches.start();
    const count = () => woken.filter((name) => name === node).length;
    await waitFor(() => watches.isSettled && count() === 1, { what: 'the node is listed' });
    expect(watches.isNodeDown(node)).toBe(false);
    for (let beat = 0; beat < 20; beat += 1)
      await cluster.setNode(node, 'True', { nodeInfo: infoOf(`boot-${beat}`) });
    await cluster.setNode(node, 'Unknown');
    await waitFor(() => watches.isNodeDown(node), { what: 'the node is seen as down' });
    expect(count()).toBe(2);
    await watches.stop();
    await cluster.deleteNode(node);
  });

  it('no more of a node whose pod has another one in its place on another node', async () => {
    const [bad, good] = [await cluster.createNode('bad'), await cluster.createNode('good')];
    const { told, operator } = await start();
    const job = await runOn('moving', bad);
    await cluster.setNode(bad, 'Unknown');
    await told.become({ [`node_not_ready ${bad}`]: 1 });
    // No kubelet confirms its end, so it stays.
    await jobs.deletePod('moving-pod');
    await jobs.setPod('moving-pod-2', job, { startedAt: ago(0), node: good });
    await told.become({});
    await end('moving');
    await operator.stop();
    for (const node of [bad, good]) await cluster.deleteNode(node);
  });

  it('what concerns a monitor that comes to the API only then', async () => {
    const node = await cluster.createNode('early', 'Unknown');
    const cronJob = await jobs.createCronJob('early');
    const job = await jobs.createJob('early-1', cronJob);
    await jobs.setPod('early-pod', job, { startedAt: ago(0), node });
    const { told, operator } = await start();
    await fixture.createMonitor('early', {
      callback: { kind: 'disabled' },
      workloadRef: cronJobRef('early'),
    });
    await told.become({ [`node_not_ready ${node}`]: 1 });
    const isKnown = async () => {
      const { rows } = await fixture.apiFixture.pool.query(
        `select c.object from caused_monitors m join operator_causes c using (cause_id)
          join monitors k using (project_id, monitor_key) where k.monitor_id = $1 and m.ended_ms is null`,
        [await idOf('early')],
      );
      return rows.some(({ object }) => object === node);
    };
    await waitFor(isKnown, { what: 'the API knows of it' });
    await end('early');
    await operator.stop();
    await cluster.deleteNode(node);
  });

  it('which image cannot be pulled, as the pod names it, until it is', async () => {
    const { told, operator } = await start();
    const job = await cluster.begin('pulling');
    await jobs.setPod('pulling-pod', job, { waiting: 'ErrImagePull' }, { phase: 'Pending' });
    expect(await told.become({ 'image_cannot_be_pulled backup:1': 1 })).toEqual({
      'image_cannot_be_pulled backup:1': [await idOf('pulling')],
    });
    await jobs.setPod('pulling-pod', job, { startedAt: ago(0) });
    await told.become({});
    await end('pulling');
    await operator.stop();
  });

  it('which quota leaves a Job without pods, until there is room', async () => {
    await cluster.setQuota('small', { hard: { pods: '2' }, used: { pods: '2' } });
    const { told, operator } = await start();
    await cluster.begin('crowded');
    const quota = `quota_exceeded ${fixture.namespace}/small`;
    expect(await told.become({ [quota]: 1 })).toEqual({ [quota]: [await idOf('crowded')] });
    await cluster.setQuota('small', { hard: { pods: '3' }, used: { pods: '2' } });
    await told.become({});
    await cluster.setQuota('small', { hard: { pods: '3' }, used: { pods: '3' } });
    await told.become({ [quota]: 1 });
    await cluster.deleteQuota('small');
    await told.become({});
    await end('crowded');
    await operator.stop();
  });

  it('that a namespace is being deleted, and no more of it without the Monitor', async () => {
    const other = await openOperatorFixture();
    try {
      const told = new ToldCalls();
      await other.startOperator({ watchNamespaces: [], ...told.clients });
      await jobFixture(other).createCronJob('leaving');
      const spec = { callback: { kind: 'disabled' }, workloadRef: cronJobRef('leaving') };
      await other.createMonitor('leaving', spec);
      const { status } = await other.monitorBecomes('leaving', 'Ready', 'True');
      await told.become({});
      await other.kube.client.delete(namespaces, { name: other.namespace });
      const cause = `namespace_terminating ${other.namespace}`;
      expect(await told.become({ [cause]: 1 })).toEqual({ [cause]: [status?.monitorId] });
      await other.kube.client.delete(MONITORS, { namespace: other.namespace, name: 'leaving' });
      await told.become({});
    } finally {
      await other.close();
    }
  });
});

const infoOf = (bootID: string) => ({
  ...{ bootID, machineID: '', systemUUID: '', kernelVersion: '', osImage: '', containerRuntimeVersion: '' },
  ...{ kubeletVersion: '', kubeProxyVersion: '', operatingSystem: 'linux', architecture: 'amd64' },
});
