// Objects that change while the operator is in the middle of a write for them: the newest spec wins, and nothing is lost.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { ClusterGate, type GateCall } from './cluster-gate.ts';
import { collectLines, type LogLines } from './log-lines.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';
import { RefusingProxy } from './refusing-proxy.ts';

const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('an object that changes while a write for it is under way', () => {
  let fixture: OperatorFixture;
  let gate: ClusterGate;
  let api: RefusingProxy;
  let operator: TestOperator;
  let said: LogLines;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  beforeEach(async () => {
    gate = await ClusterGate.start();
    api = await RefusingProxy.start(fixture.apiFixture.url);
    said = collectLines();
    // Nothing but the events of the watches causes a pass.
    operator = await fixture.startOperator({
      ...gate.options,
      apiUrl: api.url,
      log: said.log,
      resyncMs: 600_000,
    });
  });
  afterEach(async () => {
    await operator.stop();
    await Promise.all([gate.close(), api.close()]);
  });
  afterAll(() => fixture.close());

  const ref = (name: string) => ({ namespace: fixture.namespace, name });
  const change = (name: string, patch: object) => fixture.kube.client.mergePatch(MONITORS, ref(name), patch);
  const calls = (operation: string) => operator.calls.get(operation) ?? 0;
  const recordOf = async (name: string) => {
    const { rows } = await fixture.apiFixture.pool.query('select monitor_id from monitors where name = $1', [
      name,
    ]);
    expect(rows).toHaveLength(1);
    return (await fixture.api.expectSuccess('getMonitor', { params: { monitorId: rows[0].monitor_id } }))
      .body;
  };
  const errors = () =>
    metricValue(operator.registry, 'controller_runtime_reconcile_errors_total', { controller: 'monitor' });

  /** Holds the next call of the API at a path, before it is done there or (`answer`) after. */
  function holdApi(matches: (path: string) => boolean): { held: Promise<void>; release: () => void } {
    const [held, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let isHeld = false;
    api.hold = (path) => {
      if (isHeld || !matches(path)) return undefined;
      isHeld = true;
      held.resolve();
      return released.promise;
    };
    return { held: held.promise, release: released.resolve };
  }

  /** Holds the next write of the operator at the API server. */
  function holdWrite(when: 'before' | 'after', matches: (call: GateCall) => boolean) {
    const [held, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let isHeld = false;
    gate[when] = async (call) => {
      if (isHeld || call.method === 'GET' || !matches(call)) return;
      isHeld = true;
      held.resolve();
      await released.promise;
    };
    return { held: held.promise, release: released.resolve };
  }

  it('a spec that changes while its monitor is created is that of the monitor in the end', async () => {
    const creation = holdApi((path) => path === '/v1/monitors');
    await fixture.createMonitor('created', { graceSeconds: 111, ...disabled });
    await creation.held;
    await change('created', { spec: { graceSeconds: 222 } });
    await change('created', { spec: { intervalSeconds: 600 }, metadata: { labels: { team: 'shop' } } });
    creation.release();
    const object = await fixture.monitorBecomes('created', 'Ready', 'True');
    expect(await recordOf('created')).toMatchObject({ graceSeconds: 222, intervalSeconds: 600 });
    expect(object.status?.observedGeneration).toBe(3);
    expect(calls('createMonitor')).toBe(1);
    expect(gate.stored('POST', '/secrets')).toHaveLength(1);
    expect(await errors()).toBe(0);
  });

  it('a spec that changes while an update of its monitor is under way wins, and each change is made once', async () => {
    await fixture.createMonitor('updated', { graceSeconds: 111, ...disabled });
    await fixture.monitorBecomes('updated', 'Ready', 'True');
    const { monitorId } = await recordOf('updated');
    const update = holdApi((path) => path.startsWith(`/v1/monitors/${monitorId}`));
    await change('updated', { spec: { graceSeconds: 222, description: 'the first' } });
    await update.held;
    await change('updated', { spec: { graceSeconds: 333 } });
    update.release();
    await fixture.monitorBecomes('updated', 'Synced', 'True');
    expect(await recordOf('updated')).toMatchObject({ graceSeconds: 333, description: 'the first' });
    // Back while the way there is being written: the API must not stay at what was asked for in between.
    const there = holdApi((path) => path.startsWith(`/v1/monitors/${monitorId}`));
    await change('updated', { spec: { graceSeconds: 444 } });
    await there.held;
    await change('updated', { spec: { graceSeconds: 333 } });
    there.release();
    const object = await fixture.monitorBecomes('updated', 'Synced', 'True');
    expect(object.status?.observedGeneration).toBe(5);
    expect((await recordOf('updated')).graceSeconds).toBe(333);
    expect(calls('updateMonitor')).toBe(4);
    expect(await errors()).toBe(0);
  });

  it.each(['before', 'after'] as const)(
    'a spec that changes while a status write is under way (%s the API server has it) is observed, and the status never claims it early',
    async (when) => {
      const name = `status-${when}`;
      await fixture.createMonitor(name, { graceSeconds: 111, ...disabled });
      await fixture.monitorBecomes(name, 'Ready', 'True');
      const write = holdWrite(when, ({ path }) => path.endsWith(`/monitors/${name}/status`));
      await fixture.beat(`${name}-beat`);
      await write.held;
      const { metadata } = await change(name, { spec: { graceSeconds: 222 } });
      expect(metadata.generation).toBe(2);
      expect((await fixture.monitor(name)).status?.observedGeneration).toBe(1);
      write.release();
      const object = await fixture.monitorBecomes(name, 'Synced', 'True');
      expect(object.status).toMatchObject({ observedGeneration: 2, health: 'up' });
      expect((await recordOf(name)).graceSeconds).toBe(222);
      const refused = gate.writes.filter(
        ({ path, status }) => path.endsWith(`/${name}/status`) && status === 409,
      );
      expect(refused).toHaveLength(when === 'before' ? 1 : 0);
      expect([calls('createMonitor'), calls('updateMonitor')]).toEqual([1, 1]);
      expect(await errors()).toBe(0);
    },
  );

  it('an object that is deleted while its monitor is created leaves no monitor that alerts, and no Secret', async () => {
    const creation = holdApi((path) => path === '/v1/monitors');
    await fixture.createMonitor('brief', disabled);
    await creation.held;
    await fixture.kube.client.delete(MONITORS, ref('brief'));
    creation.release();
    await waitFor(async () => (await fixture.kube.client.find(MONITORS, ref('brief'))) === undefined, {
      what: 'the object is gone',
    });
    expect((await recordOf('brief')).lifecycle).toBe('archived');
    expect(await fixture.secret('brief-beat')).toBeUndefined();
    expect(calls('createMonitor')).toBe(1);
  });

  it('conflicts with somebody who writes the object at each write of the operator end in one monitor and one endpoint', async () => {
    const times = 3;
    const left = new Map<string, number>();
    gate.before = async ({ method, path }) => {
      const target = /\/(monitors|callbacks)\/contested(\/status)?$/.exec(path);
      if (method !== 'PATCH' || target === null) return;
      const count = left.get(path) ?? times;
      left.set(path, count - 1);
      if (count <= 0) return;
      const patch = { metadata: { annotations: { rival: `${count}` } } };
      await fixture.kube.client.mergePatch<KubeObject>(
        target[1] === 'monitors' ? MONITORS : CALLBACKS,
        ref('contested'),
        patch,
      );
    };
    await fixture.createCallback('contested');
    await fixture.createMonitor('contested', {
      callback: { kind: 'named', callbackRef: { name: 'contested' } },
    });
    await fixture.callbackBecomes('contested', 'Ready', 'True');
    const object = await fixture.monitorBecomes('contested', 'Ready', 'True');
    expect(object.metadata.annotations?.rival).toBe('1');
    const conflicts = gate.writes.filter(({ path, status }) => path.includes('/contested') && status === 409);
    // The claim and the status, of the Monitor and of the Callback.
    expect(conflicts.length).toBeGreaterThanOrEqual(4 * times);
    expect((await recordOf('contested')).monitorId).toBe(object.status?.monitorId);
    const { rows } = await fixture.apiFixture.pool.query(
      "select from callback_endpoints where alias = 'contested'",
    );
    expect(rows).toHaveLength(1);
    expect([calls('createMonitor'), calls('createCallback')]).toEqual([1, 1]);
    expect(calls('rotateSigningSecret')).toBe(0);
    // A conflict is no fault: nobody needs to look.
    expect(await errors()).toBe(0);
    expect(said.lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
  });

  it('a Secret that somebody deletes while it is written, and again, is there in the end, with the same address', async () => {
    await fixture.createCallback('robbed');
    await fixture.createMonitor('robbed', { callback: { kind: 'inline', url: 'http://127.0.0.1:9/robbed' } });
    await fixture.callbackBecomes('robbed', 'Ready', 'True');
    await fixture.monitorBecomes('robbed', 'Ready', 'True');
    const before = {
      beat: await fixture.secret('robbed-beat'),
      signing: await fixture.secret('robbed-signing'),
    };
    let deletions = 0;
    gate.before = async ({ method, path }) => {
      if (method !== 'PUT' || !path.endsWith('/secrets/robbed-beat') || deletions > 2) return;
      deletions += 1;
      await fixture.kube.client.delete(SECRETS, ref('robbed-beat'));
    };
    const data = { url: Buffer.from('edited').toString('base64') };
    await fixture.kube.client.mergePatch(SECRETS, ref('robbed-beat'), { data });
    await fixture.kube.client.delete(SECRETS, ref('robbed-signing'));
    // Secrets are not watched: a pass looks at them.
    await change('robbed', { spec: { graceSeconds: 99 } });
    await fixture.kube.client.mergePatch(CALLBACKS, ref('robbed'), { spec: { lifecycle: 'disabled' } });
    await waitFor(
      async () => deletions === 1 && (await fixture.secret('robbed-beat'))?.url === before.beat?.url,
      {
        what: 'the Secret has its address again',
      },
    );
    await waitFor(async () => (await fixture.secret('robbed-signing'))?.version === '2', {
      what: 'a new signing secret',
    });
    await fixture.callbackBecomes('robbed', 'Synced', 'True');
    expect((await fixture.eventAppears('robbed', 'SecretRestored')).note).not.toContain('sigcb');
    // The secret of the Callback is lost, so it was rotated, once. The address of the Monitor is not.
    expect([calls('rotatePublishUrl'), calls('rotateSigningSecret')]).toEqual([0, 1]);
    expect((await fixture.secret('robbed-signing'))?.secret).not.toBe(before.signing?.secret);
  });
});
