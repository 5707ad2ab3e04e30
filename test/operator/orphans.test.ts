// Monitors whose Monitor was deleted while no operator could see it: what the API and the metrics say of them.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { KubeLog } from '../../src/kube/kube-log.ts';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { NAMESPACES } from '../../src/operator/resources/core-resources.ts';
import { createNamespace, hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  type OperatorFixture,
  type OperatorOptions,
  openOperatorFixture,
  type TestOperator,
} from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('a monitor whose Monitor was deleted while nothing was installed', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;
  let lines: string[];
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());

  const log: KubeLog = {
    debug: () => undefined,
    info: () => undefined,
    warn: (_facts, message) => void lines.push(message ?? ''),
    error: () => undefined,
  };
  const start = (more: OperatorOptions = {}) => fixture.startOperator({ resyncMs: 300, log, ...more });
  const make = async (name: string) => {
    await fixture.createMonitor(name, disabled);
    return (await fixture.monitorBecomes(name, 'Ready', 'True')).status?.monitorId ?? '';
  };
  const ref = (name: string) => ({ namespace: fixture.namespace, name });
  /** As an uninstall and a deletion after it leave it. */
  const lose = async (name: string) => {
    await fixture.kube.client.mergePatch(MONITORS, ref(name), { metadata: { finalizers: null } });
    await fixture.kube.client.delete(MONITORS, ref(name));
  };
  const orphans = async () => {
    const { body } = await fixture.api.expectSuccess('listMonitors', { query: { origin: 'orphaned' } });
    return body.items.map(({ monitorId }) => monitorId).sort();
  };
  const counted = () => metricValue(operator.registry, 'beatkeeper_monitors_orphaned', {});
  const lifecycleOf = async (monitorId: string) =>
    (await fixture.api.expectSuccess('getMonitor', { params: { monitorId } })).body.lifecycle;
  /** Two whole listings have ended since the call: what the first one says was judged. */
  const listings = async () => {
    const reads = () => operator.calls.get('getStatusFeed') ?? 0;
    const before = reads();
    await waitFor(() => reads() >= before + 4, { what: 'the feed was listed again' });
  };

  beforeEach(async () => {
    lines = [];
    operator = await start();
  });
  afterEach(() => operator.stop());

  it('it is listed as orphaned and counted, the log says so once, and it is seen again when it is applied again', async () => {
    const id = await make('lost');
    await make('kept');
    await operator.stop();
    await lose('lost');
    operator = await start();
    await waitFor(async () => (await orphans()).includes(id), { what: 'it is listed' });
    expect(await orphans()).toEqual([id]);
    await waitFor(async () => (await counted()) === 1, { what: 'it is counted' });
    await listings();
    expect(lines.filter((line) => line.startsWith('Monitors at the API have lost'))).toHaveLength(1);

    expect(await make('lost')).toBe(id);
    await waitFor(async () => (await counted()) === 0, { what: 'it is counted no more' });
    expect(await orphans()).toEqual([]);
    expect(await lifecycleOf(id)).toBe('active');
  });

  it('one that was reported although its object is there is seen again', async () => {
    const id = await make('there');
    const body = { orphaned: [id], seen: [] };
    await fixture.api.expectSuccess('reportMonitorOrigins', { body });
    await waitFor(async () => !(await orphans()).includes(id), { what: 'it is seen' });
  });

  it('an unchanged cluster is reported once', async () => {
    await make('reported');
    await operator.stop();
    await lose('reported');
    operator = await start();
    await waitFor(async () => (await orphans()).length > 0, { what: 'it is listed' });
    const reports = operator.calls.get('reportMonitorOrigins');
    await listings();
    expect(operator.calls.get('reportMonitorOrigins')).toBe(reports);
    await make('reported');
  });

  it('nothing is judged in a namespace that the operator does not watch, or can not see', async () => {
    const other = await createNamespace(fixture.kube.client);
    const body = {
      ...{ monitorId: 'elsewhere', name: 'x', ...disabled },
      origin: { kind: 'Monitor' as const, namespace: other, name: 'x', uid: 'x' },
    };
    await fixture.api.expectSuccess('createMonitor', { body });
    await listings();
    expect(await orphans()).toEqual([]);
    await operator.stop();
    operator = await start({ watchNamespaces: [fixture.namespace, other] });
    await waitFor(async () => (await orphans()).includes('elsewhere'), { what: 'it is watched now' });
    await fixture.api.expectSuccess('setMonitorOrigin', {
      params: { monitorId: 'elsewhere' },
      body: { origin: null },
    });
  });

  it('a monitor of a former project of the namespace is orphaned, although there is an object of the name', async () => {
    await operator.stop();
    operator = await start({ watchNamespaces: [] });
    const id = await make('moved');
    await operator.stop();
    // A cluster that was rebuilt with another project: no status leads back.
    await lose('moved');
    await fixture.createMonitor('moved', disabled);
    const annotations = { 'beatkeeper.dev/project': `project of ${fixture.namespace}`.slice(0, 60) };
    const annotate = (given: object) =>
      fixture.kube.client.mergePatch(
        NAMESPACES,
        { name: fixture.namespace },
        { metadata: { annotations: given } },
      );
    await annotate(annotations);
    operator = await start({ watchNamespaces: [] });
    await waitFor(async () => (await orphans()).includes(id), { what: 'it is listed' });
    await annotate({ 'beatkeeper.dev/project': null });
    await waitFor(async () => (await orphans()).length === 0, { what: 'the object has it again' });
  });

  it('with Archive it is archived when the time has passed, and applied again it is restored', async () => {
    const id = await make('old');
    await make('young');
    await operator.stop();
    await lose('old');
    operator = await start({ orphans: 'Archive' });
    await waitFor(async () => (await orphans()).includes(id), { what: 'it is listed' });
    await listings();
    expect(await lifecycleOf(id)).toBe('active');
    await operator.stop();
    operator = await start({ orphans: 'Archive', orphanArchiveAfterMs: 0 });
    await waitFor(async () => (await lifecycleOf(id)) === 'archived', { what: 'it is archived' });
    expect(await make('old')).toBe(id);
    expect(await lifecycleOf(id)).toBe('active');
  });

  it('with Archive nothing is archived while more than half have lost their objects', async () => {
    const { client } = fixture.kube;
    const names: string[] = [];
    for await (const { metadata } of client.listAll<MonitorObject>(MONITORS, {
      namespace: fixture.namespace,
    }))
      names.push(metadata.name);
    expect(names.length).toBeGreaterThan(3);
    await operator.stop();
    for (const name of names) await lose(name);
    operator = await start({ orphans: 'Archive', orphanArchiveAfterMs: 0 });
    await waitFor(async () => (await orphans()).length === names.length, { what: 'all are listed' });
    await listings();
    expect(await orphans()).toHaveLength(names.length);
    expect(lines.filter((line) => line.startsWith('More than half'))).toHaveLength(1);
    // Half of them are back: the rest goes.
    const isEnough = Math.ceil(names.length / 2);
    for (const name of names.slice(0, isEnough)) await make(name);
    await waitFor(async () => (await orphans()).length === 0, { what: 'the rest is archived' });
  });
});
