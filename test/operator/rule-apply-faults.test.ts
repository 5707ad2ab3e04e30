// `rollout: Apply` of a Rule where something fails: the API refuses it, or the operator dies.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { RULES, type RuleObject } from '../../src/operator/kinds/rule/rule-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { Crash } from './crashing-clients.ts';
import {
  nextSecond,
  type OperatorFixture,
  openOperatorFixture,
  type TestOperator,
} from './operator-fixture.ts';

const SPEC = { intervalSeconds: 3600, callback: { kind: 'disabled' } };
const ruleFor = (app: string, definition: object) => ({
  selector: { matchLabels: { app } },
  ...{ measurementKey: 'rows', definition },
});

describe.skipIf(!hasCluster)('a Rule with rollout: Apply', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture?.close());
  const operators: TestOperator[] = [];
  const start = async (options?: Parameters<OperatorFixture['startOperator']>[0]) => {
    const operator = await fixture.startOperator(options);
    operators.push(operator);
    return operator;
  };
  const setPlan = (plan: string) =>
    fixture.apiFixture.pool.query('update organizations set plan = $1', [plan]);
  afterEach(async () => {
    for (const operator of operators.splice(0)) await operator.stop();
    await setPlan('scale');
  });

  const { stringify } = JSON;
  const refOf = (name: string) => ({ namespace: fixture.namespace, name });
  const measurementsOf = async (name: string) => {
    const { status } = await fixture.monitor(name);
    const params = { monitorId: status?.monitorId ?? '' };
    return (await fixture.api.expectSuccess('getMonitor', { params })).body.measurements;
  };
  const rowsBecome = (name: string, minimum: number | undefined) =>
    waitFor(async () => (await measurementsOf(name)).rows?.minimum === minimum, {
      what: `the minimum of ${name} is ${minimum}`,
    });

  test('that the API refuses on one Monitor harms nothing else of it, says why, and gets its turn when there is room', async () => {
    const operator = await start();
    const own = Object.fromEntries(
      Array.from({ length: 64 }, (_, index) => [`own_${index}`, { minimum: 1 }]),
    );
    await fixture.createMonitor('full', { ...SPEC, measurements: own }, { labels: { app: 'full' } });
    await fixture.createMonitor('free', SPEC, { labels: { app: 'full' } });
    await fixture.createRule('full', ruleFor('full', { minimum: 10 }));
    const refused = await fixture.ruleBecomes('full', 'Ready', 'False', 'Refused');
    const ready = refused.status?.conditions?.find(({ type }) => type === 'Ready');
    expect(ready?.message).toMatch(/^1 Monitor cannot have it, such as full: .*at most 64 measurements/);
    await rowsBecome('free', 10);
    const isCounted = async () => (await fixture.rule('full')).status?.monitors?.applied === 1;
    await waitFor(isCounted, { what: 'the other Monitor counts' });
    expect((await fixture.rule('full')).status?.monitors).toMatchObject({
      matched: 2,
      refused: 1,
      pending: 0,
    });
    await fixture.eventAppears('full', 'Refused');

    const monitor = await fixture.monitorBecomes('full', 'Ready', 'True');
    expect(monitor.status?.appliedRules).toBeUndefined();
    expect(monitor.status?.refusedRules).toMatchObject([
      { name: 'full', measurementKey: 'rows', reason: 'TooManyMeasurements' },
    ]);
    expect(Object.keys(await measurementsOf('full'))).toHaveLength(64);
    // A change of the spec makes room.
    await fixture.kube.client.mergePatch(MONITORS, refOf('full'), {
      spec: { measurements: { own_0: null } },
    });
    await rowsBecome('full', 10);
    await fixture.ruleBecomes('full', 'Ready', 'True', 'Applied');
    expect((await fixture.monitor('full')).status?.refusedRules).toBeUndefined();
    await operator.stop();
  });

  test('whose new definition is refused leaves the one that it has applied, and is not asked for again and again', async () => {
    const operator = await start({ resyncMs: 300 });
    await fixture.createMonitor('kept', SPEC, { labels: { app: 'kept' } });
    await fixture.createRule('kept', ruleFor('kept', { minimum: 10 }));
    await fixture.ruleBecomes('kept', 'Ready', 'True', 'Applied');
    await setPlan('free');
    const definition = { minimum: null, maximumAbsoluteDelta: 3 };
    await fixture.kube.client.mergePatch(RULES, refOf('kept'), { spec: { definition } });
    const { status } = await fixture.ruleBecomes('kept', 'Ready', 'False', 'Refused');
    expect(stringify(status?.conditions)).toContain('service.plan_limit_reached');
    await rowsBecome('kept', 10);
    const monitor = await fixture.monitor('kept');
    expect(monitor.status?.appliedRules).toMatchObject([{ name: 'kept', measurementKey: 'rows' }]);
    // A pass that puts something else back asks for it no more.
    const params = { monitorId: monitor.status?.monitorId ?? '' };
    const { etag: ifMatch } = await fixture.api.expectSuccess('getMonitor', { params });
    const asked = operator.calls.get('updateMonitor') ?? 0;
    await fixture.api.expectSuccess('updateMonitor', {
      ...{ params, ifMatch },
      body: { patch: { intervalSeconds: 7200 } },
    });
    await fixture.eventAppears('kept', 'Drifted');
    expect(operator.calls.get('updateMonitor')).toBe(asked + 1);
    await operator.stop();

    await setPlan('scale');
    const next = await start({ resyncMs: 300, refusalRetryMs: 500 });
    await rowsBecome('kept', undefined);
    await fixture.ruleBecomes('kept', 'Ready', 'True', 'Applied');
    await next.stop();
  });

  test('that is refused beside another one keeps that from nothing, and takes with it no rule that it has not given', async () => {
    await setPlan('free');
    const operator = await start();
    await fixture.createMonitor('two', SPEC, { labels: { app: 'two' } });
    const { status } = await fixture.monitorBecomes('two', 'Synced', 'True');
    const params = { monitorId: status?.monitorId ?? '' };
    const { etag: ifMatch } = await fixture.api.expectSuccess('getMonitor', { params });
    const body = { patch: { measurements: { rows: { minimum: 7 } } } };
    await fixture.api.expectSuccess('updateMonitor', { params, ifMatch, body });
    await operator.stop();
    await fixture.createRule('two-rows', ruleFor('two', { maximumAbsoluteDelta: 1 }));
    await fixture.createRule('two-bytes', { ...ruleFor('two', { minimum: 2 }), measurementKey: 'bytes' });
    const next = await start();
    await fixture.ruleBecomes('two-bytes', 'Ready', 'True', 'Applied');
    await fixture.ruleBecomes('two-rows', 'Ready', 'False', 'Refused');
    await rowsBecome('two', 7);
    await fixture.kube.client.delete(RULES, refOf('two-rows'));
    const isTold = async () => (await fixture.monitor('two')).status?.refusedRules === undefined;
    await waitFor(isTold, { what: 'nothing is refused any more' });
    expect(await measurementsOf('two')).toMatchObject({ rows: { minimum: 7 }, bytes: { minimum: 2 } });
    await next.stop();
    await setPlan('scale');
  });

  test('that takes the place of a deleted one ends what that gave, also where it is refused itself, and without an Event on the Monitor', async () => {
    const operator = await start();
    await fixture.createMonitor('heir', SPEC, { labels: { app: 'heir' } });
    const older = await fixture.createRule('heir-older', ruleFor('heir', { minimum: 10 }));
    await fixture.ruleBecomes('heir-older', 'Ready', 'True', 'Applied');
    await nextSecond(older);
    await setPlan('free');
    await fixture.createRule('heir-younger', ruleFor('heir', { maximumAbsoluteDelta: 1 }));
    await fixture.ruleBecomes('heir-younger', 'Ready', 'False', 'Conflict');
    await fixture.kube.client.delete(RULES, refOf('heir-older'));
    await fixture.ruleBecomes('heir-younger', 'Ready', 'False', 'Refused');
    const isGone = async () => (await measurementsOf('heir')).rows === undefined;
    await waitFor(isGone, { what: 'the rule of the deleted one is gone' });
    await setPlan('scale');
    await operator.stop();
    const reasons = (await fixture.events('heir')).map(({ reason }) => reason);
    expect(reasons).toEqual(['Created']);
  });

  test('that was Replay for a while puts back what somebody has changed meanwhile', async () => {
    const operator = await start();
    await fixture.createMonitor('meanwhile', SPEC, { labels: { app: 'meanwhile' } });
    await fixture.createRule('meanwhile', ruleFor('meanwhile', { minimum: 10 }));
    await fixture.ruleBecomes('meanwhile', 'Ready', 'True', 'Applied');
    const setRollout = (rollout: string) =>
      fixture.kube.client.mergePatch(RULES, refOf('meanwhile'), { spec: { rollout } });
    await setRollout('Replay');
    await fixture.ruleBecomes('meanwhile', 'Ready', 'True', 'Replayed');
    const { status } = await fixture.monitor('meanwhile');
    const params = { monitorId: status?.monitorId ?? '' };
    const { etag: ifMatch } = await fixture.api.expectSuccess('getMonitor', { params });
    const body = { patch: { measurements: { rows: { minimum: 1 } } } };
    await fixture.api.expectSuccess('updateMonitor', { params, ifMatch, body });
    await setRollout('Apply');
    await rowsBecome('meanwhile', 10);
    await operator.stop();
  });

  test.each(['before', 'after'] as const)(
    'is applied, changed and taken back by the next operator when one dies %s any write',
    async (mode) => {
      const name = `crash-${mode}`;
      const monitors = [`${name}-0`, `${name}-1`];
      const first = await start();
      for (const monitor of monitors) await fixture.createMonitor(monitor, SPEC, { labels: { app: name } });
      for (const monitor of monitors) await fixture.monitorBecomes(monitor, 'Synced', 'True');
      await first.stop();
      const isWhole = async (minimum: number) => {
        const rule: RuleObject = await fixture.rule(name);
        const all: MonitorObject[] = await Promise.all(monitors.map((monitor) => fixture.monitor(monitor)));
        const uids = all.map(({ status }) => status?.appliedRules?.[0]?.uid);
        if (uids.some((uid) => uid !== rule.metadata.uid)) return false;
        if (
          rule.status?.monitors?.applied !== 2 ||
          rule.status.observedGeneration !== rule.metadata.generation
        )
          return false;
        const rules = await Promise.all(monitors.map((monitor) => measurementsOf(monitor)));
        return rules.every(({ rows }) => rows?.minimum === minimum);
      };
      const isGone = async () => {
        const rules = await Promise.all(monitors.map((monitor) => measurementsOf(monitor)));
        const all = await Promise.all(monitors.map((monitor) => fixture.monitor(monitor)));
        const isUntold = all.every(({ status }) => status?.appliedRules === undefined);
        return isUntold && rules.every(({ rows }) => rows === undefined);
      };
      /** Returns whether the first operator died. */
      const runTwice = async (at: number, isDone: () => Promise<boolean>) => {
        const crash = new Crash(at, mode);
        const dying = await start({ ...crash.clients, resyncMs: 60_000 });
        const end = new AbortController();
        const done = waitFor(isDone, { what: 'the work is done', signal: end.signal });
        done.catch(() => undefined);
        await Promise.race([crash.died.promise, done]);
        end.abort();
        await dying.stop();
        const next = await start();
        await waitFor(isDone, { what: `all is done after a death ${mode} write ${at}` });
        await next.stop();
        return crash.isDead;
      };
      let isDead = true;
      let count = 0;
      for (; isDead; count += 1) {
        await fixture.createRule(name, ruleFor(name, { minimum: 10 }));
        isDead = await runTwice(count + 1, () => isWhole(10));
        await fixture.kube.client.mergePatch(RULES, refOf(name), { spec: { definition: { minimum: 20 } } });
        isDead = (await runTwice(count + 1, () => isWhole(20))) || isDead;
        await fixture.kube.client.delete(RULES, refOf(name));
        isDead = (await runTwice(count + 1, isGone)) || isDead;
      }
      expect(count).toBeGreaterThan(5);
    },
    600_000,
  );
});
