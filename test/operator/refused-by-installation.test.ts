// Refusals that depend on how the API is installed: they end when its administrator changes that, without a change of
// the object, and the message names the value.
import type { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { findCondition } from '../../src/kube/conditions.ts';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { createNamespace, hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  type OperatorFixture,
  type OperatorOptions,
  openOperatorFixture,
  type TestOperator,
} from './operator-fixture.ts';
import { RefusingProxy } from './refusing-proxy.ts';

const disabled = { callback: { kind: 'disabled' } };
const PRIVATE = { url: 'http://10.20.30.40/alerts' };
const VALUE = 'callbacks.allowedPrivateDestinations';

describe.skipIf(!hasCluster)('an operator whose API refuses what depends on its installation', () => {
  let fixture: OperatorFixture;
  /** An api on the same database that may send to private addresses. */
  let generous: string;
  let proxy: RefusingProxy;
  let operator: TestOperator | undefined;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    const allowedPrivateDestinations = '127.0.0.1, 10.0.0.0/8';
    generous = (await fixture.apiFixture.startReplica({ allowedPrivateDestinations })).url;
  });
  beforeEach(async () => {
    proxy = await RefusingProxy.start(fixture.apiFixture.url);
  });
  afterEach(async () => {
    await operator?.stop();
    await proxy.close();
  });
  afterAll(() => fixture.close());
  const start = async (options: OperatorOptions) => {
    operator = await fixture.startOperator({ apiUrl: proxy.url, ...options });
    return operator;
  };
  const messageOf = ({ status }: Awaited<ReturnType<OperatorFixture['callback']>>, type = 'Ready') =>
    status?.conditions?.find((condition) => condition.type === type)?.message;

  it('a destination that is not allowed is tried again after a while, and its message names the value', async () => {
    await start({ refusalRetryMs: 500, resyncMs: 300 });
    const { metadata } = await fixture.createCallback('later', PRIVATE);
    const refused = await fixture.callbackBecomes('later', 'Ready', 'False', 'Refused');
    expect(messageOf(refused)).toContain(VALUE);
    proxy.moveTo(generous);
    const ready = await fixture.callbackBecomes('later', 'Ready', 'True');
    expect(ready.metadata.generation).toBe(metadata.generation);
  });

  it('what only a change of the object can mend is not tried again', async () => {
    const problem = { code: 'service.validation_failed', detail: 'name: Too odd.' };
    let asked = 0;
    proxy.answer = ({ method, path }) => {
      if (method !== 'POST' || path !== '/v1/monitors') return undefined;
      asked += 1;
      return { status: 400, body: JSON.stringify(problem) };
    };
    const { calls } = await start({ refusalRetryMs: 300, resyncMs: 300 });
    await fixture.createMonitor('odd', disabled);
    await fixture.createCallback('private', PRIVATE);
    await fixture.monitorBecomes('odd', 'Ready', 'False', 'Refused');
    await waitFor(() => (calls.get('createCallback') ?? 0) >= 4, { what: 'the Callback is tried again' });
    expect(asked).toBe(1);
  });

  it('a project that the API refuses to make is asked for once in a while and not at each resync, and its objects count as stalled', async () => {
    const namespace = await createNamespace(fixture.kube.client);
    const problem = { code: 'service.permission_denied', detail: 'Not you.' };
    let asked = 0;
    proxy.answer = ({ method, path }) => {
      if (method !== 'POST' || path !== '/v1/projects') return undefined;
      asked += 1;
      return { status: 403, body: JSON.stringify(problem) };
    };
    const { calls, registry } = await start({ watchNamespaces: [namespace], resyncMs: 200 });
    const metadata = { name: 'homeless', namespace };
    const spec = disabled as MonitorObject['spec'];
    await fixture.kube.client.create(MONITORS, { metadata, spec });
    const readyOf = async () =>
      findCondition((await fixture.kube.client.get(MONITORS, metadata)).status?.conditions, 'Ready');
    await waitFor(async () => (await readyOf())?.reason === 'Refused', { what: 'the refusal shows' });
    const series = { kind: 'Monitor', reason: 'Refused' };
    const stalled = (from: Registry) => metricValue(from, 'beatkeeper_operator_stalled_objects', series);
    await waitFor(async () => (await stalled(registry)) === 1, { what: 'it counts' });
    const listed = calls.get('getStatusFeed') ?? 0;
    await waitFor(() => (calls.get('getStatusFeed') ?? 0) >= listed + 8, { what: 'some resyncs' });
    // Once more when the watch brings the status that the first pass has written.
    expect(asked).toBeLessThanOrEqual(2);
    await operator?.stop();
    proxy.answer = () => undefined;
    const { registry: next } = await start({ watchNamespaces: [namespace], resyncMs: 200 });
    await waitFor(async () => (await readyOf())?.status === 'True', { what: 'it is ready' });
    await waitFor(async () => (await stalled(next)) === 0, { what: 'it counts no more' });
  });

  it('a refused object is tried at the start of an operator, and not before ten minutes by a running one', async () => {
    const first = await start({ resyncMs: 300 });
    await fixture.createCallback('restarted', PRIVATE);
    await fixture.callbackBecomes('restarted', 'Ready', 'False', 'Refused');
    await fixture.createCallback('other');
    await fixture.callbackBecomes('other', 'Ready', 'True');
    const resyncs = async (count: number) => {
      const found = first.calls.get('getCallback') ?? 0;
      await waitFor(() => (first.calls.get('getCallback') ?? 0) >= found + count, { what: 'some resyncs' });
    };
    // By the first ones every object that was refused before this operator started has been tried.
    await resyncs(4);
    const asked = first.calls.get('createCallback');
    await resyncs(4);
    expect(first.calls.get('createCallback')).toBe(asked);
    await first.stop();
    proxy.moveTo(generous);
    await start({});
    await fixture.callbackBecomes('restarted', 'Ready', 'True');
  });

  it('Monitors learn at once that the address of their Callback is rejected, and that it is allowed again', async () => {
    proxy.moveTo(generous);
    // No resync: only the Callback wakes its Monitors.
    const day = { resyncMs: 86_400_000, refusalRetryMs: 400 };
    await start({ ...day, defaultCallbackNamespaces: [fixture.namespace] });
    await fixture.createCallback('judged', { ...PRIVATE, organizationDefault: true });
    await fixture.callbackBecomes('judged', 'Ready', 'True');
    const bindings = {
      'by-name': { kind: 'named', callbackRef: { name: 'judged' } },
      'by-alias': { kind: 'named', alias: 'judged' },
      'by-default': { kind: 'organization_default' },
    };
    const monitors = Object.keys(bindings);
    for (const [name, callback] of Object.entries(bindings)) await fixture.createMonitor(name, { callback });
    for (const name of monitors) await fixture.monitorBecomes(name, 'Ready', 'True');

    const ref = { namespace: fixture.namespace, name: 'judged' };
    let passes = 0;
    const callbackIs = (reason: string) =>
      waitFor(
        async () => {
          passes += 1;
          // A pass over the Callback puts the question when it is due.
          const metadata = { annotations: { 'example.com/passes': `${passes}` } };
          const { status } = await fixture.kube.client.mergePatch(CALLBACKS, ref, { metadata });
          return findCondition(status?.conditions, 'Ready')?.reason === reason;
        },
        { what: `the Callback is ${reason}` },
      );
    proxy.moveTo(fixture.apiFixture.url);
    await callbackIs('DestinationRejected');
    for (const name of monitors) await fixture.monitorBecomes(name, 'Ready', 'False', 'DestinationRejected');
    proxy.moveTo(generous);
    await callbackIs('Available');
    for (const name of monitors) await fixture.monitorBecomes(name, 'Ready', 'True');

    await fixture.kube.client.delete(CALLBACKS, ref);
    const isGone = async () => (await fixture.kube.client.find(CALLBACKS, ref)) === undefined;
    await waitFor(isGone, { what: 'the default endpoint is free' });
  });

  it('a destination that is allowed no more shows on its Callback and on the Monitors that alert there, until it is allowed again', async () => {
    proxy.moveTo(generous);
    const options = {
      ...{ refusalRetryMs: 400, resyncMs: 300 },
      defaultCallbackNamespaces: [fixture.namespace],
    };
    await start(options);
    await fixture.createCallback('moved', { ...PRIVATE, organizationDefault: true });
    await fixture.createCallback('allowed');
    await fixture.createMonitor('named', { callback: { kind: 'named', callbackRef: { name: 'moved' } } });
    await fixture.createMonitor('inline', { callback: { kind: 'inline', url: 'http://10.20.30.41/alerts' } });
    await fixture.createMonitor('default');
    await fixture.createMonitor('elsewhere', {
      callback: { kind: 'named', callbackRef: { name: 'allowed' } },
    });
    const before = await fixture.callbackBecomes('moved', 'Ready', 'True');
    await fixture.createMonitor('aliased', { callback: { kind: 'named', alias: 'moved' } });
    const monitors = ['named', 'inline', 'default', 'aliased'];
    for (const name of monitors) await fixture.monitorBecomes(name, 'Ready', 'True');
    const versionOf = async (name: string) => (await fixture.monitor(name)).status?.configurationVersion;
    const version = await versionOf('inline');

    proxy.moveTo(fixture.apiFixture.url);
    const rejected = await fixture.callbackBecomes('moved', 'Ready', 'False', 'DestinationRejected');
    expect(messageOf(rejected)).toContain(VALUE);
    for (const name of monitors) await fixture.monitorBecomes(name, 'Ready', 'False', 'DestinationRejected');
    await fixture.monitorBecomes('elsewhere', 'Ready', 'True');
    expect((await fixture.eventAppears('moved', 'Refused')).note).toContain(VALUE);
    await operator?.stop();
    proxy.answer = ({ path }) => (path.startsWith('/v1/callbacks/') ? { status: 503 } : undefined);
    const next = await start(options);
    const passes = { controller: 'monitor', result: 'requeue_after' };
    const count = async () =>
      (await metricValue(next.registry, 'controller_runtime_reconcile_total', passes)) ?? 0;
    const stay = async (names: readonly string[]) => {
      const passed = (await count()) + 12;
      await waitFor(async () => (await count()) >= passed, { what: 'passes over the Monitors' });
      for (const name of names) {
        const { reason } = findCondition((await fixture.monitor(name)).status?.conditions, 'Ready') ?? {};
        // The new leader does not know yet, and takes nothing back.
        expect([name, reason]).toEqual([name, 'DestinationRejected']);
      }
    };
    await stay(['aliased', 'default']);
    proxy.answer = ({ path }) => (path === '/v1/destination-checks' ? { status: 503 } : undefined);
    await stay(monitors);
    await fixture.callbackBecomes('moved', 'Ready', 'False', 'DestinationRejected');
    proxy.answer = () => undefined;
    proxy.moveTo(generous);
    const after = await fixture.callbackBecomes('moved', 'Ready', 'True');
    for (const name of monitors) await fixture.monitorBecomes(name, 'Ready', 'True');
    // To ask has changed nothing.
    expect([after.status?.generation, await versionOf('inline')]).toEqual([
      before.status?.generation,
      version,
    ]);
  });

  it('a check of destinations that takes long delays no pass, and no check leaves a record of its call', async () => {
    const { calls } = await start({ refusalRetryMs: 400, resyncMs: 300 });
    // More than there are workers.
    const names = Array.from({ length: 6 }, (_, index) => `checked-${index}`);
    for (const name of names) await fixture.createCallback(name);
    await fixture.createMonitor('checked', { callback: { kind: 'inline', url: 'http://127.0.0.1:9/a' } });
    for (const name of names) await fixture.callbackBecomes(name, 'Ready', 'True');
    await fixture.monitorBecomes('checked', 'Ready', 'True');
    const records = async () => {
      const { rows } = await fixture.apiFixture.pool.query('select scope_id, key from idempotency_records');
      return rows.length;
    };
    const before = await records();
    const checks = () => calls.get('checkDestinations') ?? 0;
    const done = checks();
    await waitFor(() => checks() >= done + 3, { what: 'some checks' });
    expect(await records()).toBe(before);

    const { promise, resolve } = Promise.withResolvers<void>();
    let held = 0;
    proxy.hold = (path) => {
      if (path !== '/v1/destination-checks') return undefined;
      held += 1;
      return promise;
    };
    await waitFor(() => held > 0, { what: 'a check that takes long' });
    const reads = () => calls.get('getCallback') ?? 0;
    const read = reads();
    await waitFor(() => reads() >= read + 24, { what: 'passes over the Callbacks' });
    await fixture.createCallback('meanwhile');
    await fixture.callbackBecomes('meanwhile', 'Ready', 'True');
    // One project has one check at a time.
    expect(held).toBe(1);
    resolve();
  });
});
