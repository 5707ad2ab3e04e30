// The watches of an operator end in every way that a cluster knows: nothing is lost, nothing is done twice, and it says so.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { ClusterGate, type GateCall, statusBody } from './cluster-gate.ts';
import { collectLines, type LogLines } from './log-lines.ts';
import {
  type OperatorFixture,
  type OperatorOptions,
  openOperatorFixture,
  type TestOperator,
} from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };
const backoff = { baseMs: 50, maxMs: 200 };
const RETRY = 'Cannot list or watch the cluster; the reflector will try again.';
const isOf = (plural: string, { path }: GateCall) => path.endsWith(`/${plural}`);

describe.skipIf(!hasCluster)('an operator whose watches fail', () => {
  let fixture: OperatorFixture;
  let gate: ClusterGate;
  let operator: TestOperator;
  let said: LogLines;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  beforeEach(async () => {
    gate = await ClusterGate.start();
    said = collectLines();
  });
  afterEach(async () => {
    await operator.stop();
    await gate.close();
  });
  afterAll(() => fixture.close());

  const start = async (options: OperatorOptions = {}) => {
    const { log } = said;
    operator = await fixture.startOperator({
      ...gate.options,
      log,
      workloads: false,
      watchTuning: { backoff },
      ...options,
    });
  };
  const ref = (name: string) => ({ namespace: fixture.namespace, name });
  const change = (name: string, spec: object) =>
    fixture.kube.client.mergePatch(MONITORS, ref(name), { spec });
  const calls = (operation: string) => operator.calls.get(operation) ?? 0;
  const ended = (end: string) =>
    metricValue(operator.registry, 'kube_reflector_watches_total', { resource: 'monitors', end });
  const lists = () => metricValue(operator.registry, 'kube_reflector_lists_total', { resource: 'monitors' });
  const watchIsOpen = () =>
    waitFor(() => gate.openWatches('monitors') === 1, { what: 'the watch of Monitors is open' });
  const isGone = (name: string) =>
    waitFor(async () => (await fixture.kube.client.find(MONITORS, ref(name))) === undefined, {
      what: `${name} is gone`,
    });
  /** The monitor of a Monitor, of which there is one alone. */
  const record = async ({ status }: MonitorObject) => {
    const { body } = await fixture.api.expectSuccess('getMonitor', {
      params: { monitorId: status?.monitorId ?? '' },
    });
    const { rows } = await fixture.apiFixture.pool.query('select from monitors where name = $1', [body.name]);
    expect(rows).toHaveLength(1);
    return body;
  };
  /** Two Monitors that are ready before the fault, the names of what comes with it, and the fault. */
  async function expectNothingLost(
    prefix: string,
    fault: (change: () => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const [old, gone, added] = ['old', 'gone', 'new'].map((name) => `${prefix}-${name}`) as [
      string,
      string,
      string,
    ];
    for (const name of [old, gone]) await fixture.createMonitor(name, { graceSeconds: 120, ...disabled });
    for (const name of [old, gone]) await fixture.monitorBecomes(name, 'Ready', 'True');
    await watchIsOpen();
    const goneId = (await fixture.monitor(gone)).status?.monitorId;
    const before = { secrets: gate.stored('POST', '/secrets').length, created: calls('createMonitor') };
    await fault(async () => {
      await change(old, { graceSeconds: 333 });
      await fixture.createMonitor(added, { graceSeconds: 444, ...disabled });
      await fixture.kube.client.delete(MONITORS, ref(gone));
    });
    await isGone(gone);
    const late = await fixture.monitorBecomes(added, 'Ready', 'True');
    await waitFor(async () => (await record(await fixture.monitor(old))).graceSeconds === 333, {
      what: 'the change has arrived',
    });
    expect((await record(late)).graceSeconds).toBe(444);
    await fixture.monitorBecomes(old, 'Synced', 'True');
    const params = { monitorId: goneId ?? '' };
    expect((await fixture.api.expectSuccess('getMonitor', { params })).body.lifecycle).toBe('archived');
    expect(await fixture.secret(`${gone}-beat`)).toBeUndefined();
    // Each thing was done once.
    expect(calls('createMonitor') - before.created).toBe(1);
    expect(gate.stored('POST', '/secrets').length - before.secrets).toBe(1);
    expect(gate.stored('DELETE', `/secrets/${gone}-beat`)).toHaveLength(1);
    expect([calls('updateMonitor'), calls('deleteMonitor'), calls('rotatePublishUrl')]).toEqual([1, 0, 0]);
    expect(said.errors()).toEqual([]);
  }

  it('a connection that breaks in the middle of an event is opened again where it broke, and the event comes whole', async () => {
    await start();
    await expectNothingLost('torn', async (change) => {
      gate.tearWatches();
      await change();
    });
    expect(await ended('broken')).toBeGreaterThan(0);
    expect(await lists()).toBe(1);
    expect(said.said(RETRY).some(({ resource }) => resource === 'monitors')).toBe(true);
  });

  it('a watch that stays open without a byte is given up at its time limit, and the log says so', async () => {
    await start({ watchTuning: { backoff, watchTimeoutSeconds: [5, 5], watchGraceMs: 300 } });
    await expectNothingLost('silent', async (change) => {
      gate.silenceWatches();
      await change();
    });
    expect(await ended('silent')).toBeGreaterThan(0);
    const warned = said.lines.filter(({ msg }) => String(msg).includes('the connection is dead'));
    expect(warned[0]).toMatchObject({
      level: 'warn',
      resource: expect.any(String),
      namespace: fixture.namespace,
    });
    expect(await lists()).toBe(1);
  });

  it('a version that the API server has forgotten leads to a new list, with what changed meanwhile', async () => {
    await start();
    await expectNothingLost('expired', async (change) => {
      const changed = Promise.withResolvers<void>();
      let isAsked = false;
      gate.before = async (call) => {
        if (!call.isWatch || !isOf('monitors', call) || isAsked) return;
        isAsked = true;
        await changed.promise;
        // So old that the API server answers 410.
        call.query.set('resourceVersion', '1');
      };
      gate.failWatches('monitors', statusBody(410, 'Expired', 'too old resource version: 1 (2)'));
      await waitFor(() => isAsked, { what: 'the operator watches again' });
      await change();
      changed.resolve();
    });
    // One of the gate, one of the API server.
    expect(await ended('expired')).toBe(2);
    expect(await lists()).toBe(3);
  });

  it('a list whose continuation has expired is read whole, and what went or came since its first page counts', async () => {
    const names = ['page-a', 'page-b', 'page-c', 'page-d', 'page-e'];
    for (const name of names) await fixture.createMonitor(name, disabled);
    let isExpired = false;
    gate.answer = (call) => {
      if (isExpired || !isOf('monitors', call) || call.query.get('continue') === null) return undefined;
      isExpired = true;
      return { status: 410, body: statusBody(410, 'Expired', 'The provided continue parameter is too old.') };
    };
    let isChanged = false;
    gate.before = async (call) => {
      if (!isExpired || isChanged || !isOf('monitors', call)) return;
      isChanged = true;
      await fixture.kube.client.delete(MONITORS, ref('page-a'));
      await fixture.createMonitor('page-f', disabled);
    };
    await start({ watchTuning: { backoff, pageSize: 2 } });
    expect(isExpired && isChanged).toBe(true);
    for (const name of [...names.slice(1), 'page-f'])
      await record(await fixture.monitorBecomes(name, 'Ready', 'True'));
    expect(operator.runtime.workers.Monitor.find(`${fixture.namespace}/page-a`)).toBeUndefined();
    const { rows } = await fixture.apiFixture.pool.query("select from monitors where name = 'page-a'");
    expect(rows).toHaveLength(0);
    expect(calls('createMonitor')).toBe(5);
    expect(said.errors()).toEqual([]);
  });

  it('a busy API server is asked again when its Retry-After is over and not before', async () => {
    await start();
    const askedAtMs: number[] = [];
    await expectNothingLost('busy', async (change) => {
      gate.answer = (call) => {
        if (!isOf('monitors', call) || !call.isWatch) return undefined;
        askedAtMs.push(performance.now());
        const body = statusBody(429, 'TooManyRequests', 'The server is busy.');
        return { status: 429, headers: { 'retry-after': '2' }, body };
      };
      gate.tearWatches();
      await change();
      await waitFor(() => askedAtMs.length >= 4, { what: 'some tries' });
      expect(operator.runtime.watchFailure).toContain('The server is busy.');
      gate.answer = () => undefined;
    });
    const pauses = askedAtMs.slice(1).map((atMs, i) => Math.round(atMs - (askedAtMs[i] ?? 0)));
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(1990);
    expect(
      said.said(RETRY).filter(({ resource, level }) => resource === 'monitors' && level === 'warn'),
    ).not.toEqual([]);
    expect(operator.runtime.watchFailure).toBeUndefined();
  });

  it('a write that a busy API server refuses is tried again when its Retry-After is over, and stored once', async () => {
    await start({ resyncMs: 600_000 });
    const triedAtMs: number[] = [];
    gate.answer = ({ method, path }) => {
      if (method !== 'PATCH' || !path.endsWith('/monitors/throttled') || triedAtMs.length >= 3)
        return undefined;
      triedAtMs.push(performance.now());
      const body = statusBody(429, 'TooManyRequests', 'The server is busy.');
      return triedAtMs.length < 3 ? { status: 429, headers: { 'retry-after': '2' }, body } : undefined;
    };
    await fixture.createMonitor('throttled', disabled);
    await record(await fixture.monitorBecomes('throttled', 'Ready', 'True'));
    const pauses = triedAtMs.slice(1).map((atMs, i) => Math.round(atMs - (triedAtMs[i] ?? 0)));
    expect(pauses).toHaveLength(2);
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(1990);
    expect(gate.stored('PATCH', '/monitors/throttled')).toHaveLength(1);
    expect(calls('createMonitor')).toBe(1);
    const failed = said.said('A reconcile failed and will be retried.');
    expect(failed.map(({ level, key }) => [level, key])).toEqual(
      Array(2).fill(['warn', `${fixture.namespace}/throttled`]),
    );
  });

  it('an operator whose cache is stale overwrites nothing newer, and takes it all when the events come', async () => {
    await start();
    const url = async (name: string) => (await fixture.secret(`${name}-beat`))?.url;
    for (const name of ['stale', 'again']) {
      await fixture.createMonitor(name, { graceSeconds: 120, ...disabled });
      await fixture.monitorBecomes(name, 'Ready', 'True');
    }
    const before = { stale: await url('stale'), again: await fixture.monitor('again') };
    await watchIsOpen();
    gate.holdWatches();
    await change('stale', { graceSeconds: 333 });
    // Another object of the name, whose deletion the operator does not see.
    await fixture.kube.client.mergePatch(MONITORS, ref('again'), { metadata: { finalizers: null } });
    await fixture.kube.client.delete(MONITORS, ref('again'));
    await fixture.createMonitor('again', { graceSeconds: 444, ...disabled });
    await fixture.createMonitor('unseen', disabled);
    // Passes on what the cache has: a beat to write into the status, and a Secret to restore.
    await fixture.beat('stale-beat');
    await fixture.beat('again-beat');
    await fixture.kube.client.delete(SECRETS, ref('stale-beat'));
    await waitFor(() => url('stale'), { what: 'the Secret is back' });
    const refused = () =>
      gate.writes.filter(({ path, status }) => path.endsWith('/status') && status === 409);
    await waitFor(
      () => ['stale', 'again'].every((name) => refused().some(({ path }) => path.includes(`/${name}/`))),
      {
        what: 'the API server has refused the status of the former objects',
      },
    );
    expect((await fixture.monitor('stale')).status?.observedGeneration).toBe(1);
    expect((await fixture.monitor('again')).status?.monitorId).toBeUndefined();

    gate.releaseWatches();
    const stale = await fixture.monitorBecomes('stale', 'Synced', 'True');
    expect((await record(stale)).graceSeconds).toBe(333);
    const again = await fixture.monitorBecomes('again', 'Ready', 'True');
    expect((await record(again)).graceSeconds).toBe(444);
    expect(again.status?.monitorId).toBe(before.again.status?.monitorId);
    await record(await fixture.monitorBecomes('unseen', 'Ready', 'True'));
    await waitFor(async () => (await fixture.monitor('stale')).status?.health === 'up', {
      what: 'the beat is in the status',
    });
    expect(await url('stale')).toBe(before.stale);
    // Two at the start, one unseen; one change for each that has another grace.
    expect([calls('createMonitor'), calls('updateMonitor'), calls('rotatePublishUrl')]).toEqual([4, 2, 0]);
    expect(said.said('A reconcile failed and will be retried.')).toEqual([]);
    expect(said.errors()).toEqual([]);
  });
});
