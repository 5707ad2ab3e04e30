// `rollout: Apply` of a Rule: the Monitors that it matches get the rule, and lose it with the Rule.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { RULES, type RuleObject } from '../../src/operator/kinds/rule/rule-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  nextSecond,
  type OperatorFixture,
  openOperatorFixture,
  type TestOperator,
} from './operator-fixture.ts';

const SPEC = { intervalSeconds: 3600, callback: { kind: 'disabled' } };
const ruleFor = (app: string, definition: object, more: object = {}) => ({
  selector: { matchLabels: { app } },
  ...{ measurementKey: 'rows', definition },
  ...more,
});

describe.skipIf(!hasCluster)('a Rule with rollout: Apply', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;

  beforeAll(async () => {
    fixture = await openOperatorFixture();
    operator = await fixture.startOperator();
  });
  afterAll(() => fixture?.close());

  const makeMonitors = async (app: string, count: number, spec: object = {}) => {
    const names = Array.from({ length: count }, (_, index) => `${app}-${index}`);
    for (const name of names) await fixture.createMonitor(name, { ...SPEC, ...spec }, { labels: { app } });
    for (const name of names) await fixture.monitorBecomes(name, 'Synced', 'True');
    return names;
  };
  const patchRule = (name: string, spec: object) =>
    fixture.kube.client.mergePatch(RULES, { namespace: fixture.namespace, name }, { spec });
  const removeRule = (name: string) =>
    fixture.kube.client.delete(RULES, { namespace: fixture.namespace, name });
  const measurementsOf = async ({ status }: MonitorObject) => {
    const params = { monitorId: status?.monitorId ?? '' };
    return (await fixture.api.expectSuccess('getMonitor', { params })).body.measurements;
  };
  /** Resolves when the API has this rule for the measurement of the Monitor; undefined: none. */
  const rowsBecome = async (name: string, wanted: object | undefined) => {
    let last: unknown;
    const isSo = async () => {
      const { rows } = await measurementsOf(await fixture.monitor(name));
      last = rows;
      if (rows === undefined || wanted === undefined) return rows === wanted;
      return Object.entries(wanted).every(
        ([field, value]) => (rows as Record<string, unknown>)[field] === value,
      );
    };
    await waitFor(isSo, { what: `the rule of ${name}` }).catch((error) => {
      throw new Error(`${error.message}: ${JSON.stringify(last)}`);
    });
  };
  const monitorsOf = ({ status }: RuleObject) => status?.monitors;

  test('gives each matching Monitor its rule, and takes it back when it is deleted', async () => {
    const names = await makeMonitors('each', 3);
    const [other = ''] = await makeMonitors('another', 1);
    await fixture.createRule('each', ruleFor('each', { minimum: 10, maximum: 90 }));
    const rule = await fixture.ruleBecomes('each', 'Ready', 'True', 'Applied');
    expect(monitorsOf(rule)).toEqual({
      ...{ progress: 'applied 3 of 3', matched: 3, applied: 3 },
      ...{ pending: 0, overridden: 0, conflicted: 0, refused: 0 },
    });
    expect(rule.status?.display).toEqual({ monitors: '3' });
    for (const name of names) {
      const monitor = await fixture.monitor(name);
      expect((await measurementsOf(monitor)).rows).toMatchObject({ minimum: 10, maximum: 90 });
      expect(monitor.status?.appliedRules).toEqual([
        {
          ...{ name: 'each', uid: rule.metadata.uid, measurementKey: 'rows' },
          definitionHash: expect.stringMatching(/^[0-9a-f]{16}$/),
        },
      ]);
    }
    expect(await measurementsOf(await fixture.monitor(other))).toEqual({});
    expect((await fixture.eventAppears('each', 'Applied')).note).toBe('Applied to 3 of 3 Monitors.');

    await patchRule('each', { definition: { minimum: 20, maximum: null } });
    for (const name of names) await rowsBecome(name, { minimum: 20, maximum: undefined });
    await fixture.ruleBecomes('each', 'Ready', 'True', 'Applied');

    await removeRule('each');
    for (const name of names) {
      await rowsBecome(name, undefined);
      const isGone = async () => (await fixture.monitor(name)).status?.appliedRules === undefined;
      await waitFor(isGone, { what: `the status of ${name} names no Rule` });
    }
  });

  test('that nobody saw go is taken back by the next operator, and a restart without a change writes nothing', async () => {
    const [name = ''] = await makeMonitors('unseen', 1);
    await fixture.createRule('unseen', ruleFor('unseen', { minimum: 10 }));
    await fixture.ruleBecomes('unseen', 'Ready', 'True', 'Applied');
    const versions = async () =>
      [await fixture.monitor(name), await fixture.rule('unseen')].map(
        ({ metadata }) => metadata.resourceVersion,
      );
    const before = await versions();
    await operator.stop();
    operator = await fixture.startOperator();
    const { Monitor } = operator.runtime.workers;
    const isLookedAt = async () =>
      Monitor.memoryOf(await fixture.monitor(name)).secretCheckedAtMs !== undefined;
    await waitFor(isLookedAt, { what: 'the Monitor was checked' });
    expect(await versions()).toEqual(before);
    expect(operator.calls.get('updateMonitor')).toBeUndefined();

    await operator.stop();
    await removeRule('unseen');
    operator = await fixture.startOperator();
    await rowsBecome(name, undefined);
  });

  test('is the whole rule of the measurement, also of what somebody has set before, and drift is put back', async () => {
    const [name = ''] = await makeMonitors('whole', 1);
    const { status } = await fixture.monitor(name);
    const params = { monitorId: status?.monitorId ?? '' };
    const patch = async (measurements: object) => {
      const ifMatch = (await fixture.api.expectSuccess('getMonitor', { params })).headers.get('etag') ?? '';
      await fixture.api.expectSuccess('updateMonitor', {
        params,
        ifMatch,
        body: { patch: { measurements } },
      });
    };
    await patch({ rows: { minimum: 1, maximumAbsoluteDelta: 5, unit: 'rows' }, bytes: { minimum: 3 } });
    await fixture.createRule('whole', ruleFor('whole', { maximum: 50 }));
    await rowsBecome(name, {
      maximum: 50,
      minimum: undefined,
      maximumAbsoluteDelta: undefined,
      unit: undefined,
    });
    await fixture.ruleBecomes('whole', 'Ready', 'True', 'Applied');
    await patch({ rows: { maximum: 60, minimum: 2 } });
    await rowsBecome(name, { maximum: 50, minimum: undefined });
    expect((await fixture.eventAppears(name, 'Drifted')).note).toContain('measurements.rows');
    expect((await measurementsOf(await fixture.monitor(name))).bytes).toMatchObject({ minimum: 3 });
    // With the Rule goes its measurement, and no other.
    await removeRule('whole');
    await rowsBecome(name, undefined);
    expect((await measurementsOf(await fixture.monitor(name))).bytes).toMatchObject({ minimum: 3 });
  });

  test('leaves a measurement that the Monitor states itself, until the spec states it no more', async () => {
    const [own = ''] = await makeMonitors('own', 2);
    const ref = { namespace: fixture.namespace, name: own };
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { measurements: { rows: { minimum: 3 } } } });
    await rowsBecome(own, { minimum: 3 });
    await fixture.createRule('own', ruleFor('own', { minimum: 10 }));
    const rule = await fixture.ruleBecomes('own', 'Ready', 'True', 'Applied');
    expect(monitorsOf(rule)).toMatchObject({ matched: 2, applied: 1, overridden: 1 });
    const ready = rule.status?.conditions?.find(({ type }) => type === 'Ready');
    expect(ready?.message).toBe('Applied to 1 of 2 Monitors. 1 Monitor states rows in the spec, which wins.');
    await rowsBecome(own, { minimum: 3 });
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { measurements: null } });
    await rowsBecome(own, { minimum: 10 });
    await patchRule('own', { definition: { minimum: 10, maximum: 90 } });
    await rowsBecome(own, { minimum: 10, maximum: 90 });
    // Of the Rule nothing is left in what the spec states.
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { measurements: { rows: { minimum: 4 } } } });
    await rowsBecome(own, { minimum: 4, maximum: undefined });
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { measurements: null } });
    await rowsBecome(own, { minimum: 10, maximum: 90 });
    const isAll = async () => monitorsOf(await fixture.rule('own'))?.applied === 2;
    await waitFor(isAll, { what: 'both Monitors have it' });
  });

  test('follows labels: a Monitor that comes to match gets it, and one that stops matching loses it', async () => {
    const [name = ''] = await makeMonitors('later', 1);
    await fixture.createRule('labelled', ruleFor('labelled', { minimum: 10 }));
    await fixture.ruleBecomes('labelled', 'Ready', 'True', 'NoMonitors');
    const ref = { namespace: fixture.namespace, name };
    await fixture.kube.client.mergePatch(MONITORS, ref, { metadata: { labels: { app: 'labelled' } } });
    await rowsBecome(name, { minimum: 10 });
    await fixture.ruleBecomes('labelled', 'Ready', 'True', 'Applied');
    await fixture.kube.client.mergePatch(MONITORS, ref, { metadata: { labels: { app: 'none' } } });
    await rowsBecome(name, undefined);
    await fixture.ruleBecomes('labelled', 'Ready', 'True', 'NoMonitors');
  });

  test('for one Monitor waits for it and says so', async () => {
    const named = { selector: undefined, monitorRef: { name: 'single-0' } };
    await fixture.createRule('single', ruleFor('', { minimum: 10 }, named));
    const { status } = await fixture.ruleBecomes('single', 'Ready', 'False', 'MonitorNotFound');
    expect(status?.conditions?.some(({ type }) => type === 'Stalled')).toBe(false);
    const [name = ''] = await makeMonitors('single', 1);
    await rowsBecome(name, { minimum: 10 });
    await fixture.ruleBecomes('single', 'Ready', 'True', 'Applied');
  });

  test('is in conflict with an older one for the same Monitor and measurement, and takes its place when that goes', async () => {
    const [name = ''] = await makeMonitors('rival', 1);
    const older = await fixture.createRule('older', ruleFor('rival', { minimum: 10 }));
    await nextSecond(older);
    await fixture.ruleBecomes('older', 'Ready', 'True', 'Applied');
    await fixture.createRule('younger', ruleFor('rival', { minimum: 99 }));
    const { status } = await fixture.ruleBecomes('younger', 'Ready', 'False', 'Conflict');
    expect(status?.monitors).toMatchObject({ matched: 1, applied: 0, conflicted: 1 });
    const conflict = status?.conditions?.find(({ type }) => type === 'Conflict');
    expect(conflict).toMatchObject({ status: 'True', reason: 'OlderRule' });
    expect(conflict?.message).toContain('1 Monitor has an older Rule for rows, such as rival-0 (older).');
    await fixture.eventAppears('younger', 'Conflict');
    await rowsBecome(name, { minimum: 10 });
    await removeRule('older');
    await rowsBecome(name, { minimum: 99 });
    const after = await fixture.ruleBecomes('younger', 'Ready', 'True', 'Applied');
    expect(after.status?.conditions?.some(({ type }) => type === 'Conflict')).toBe(false);
  });

  test('that is set to Replay leaves on the Monitors what it has applied, and Apply changes it again', async () => {
    const [name = ''] = await makeMonitors('back', 1);
    await fixture.createRule('back', ruleFor('back', { minimum: 10 }));
    await fixture.ruleBecomes('back', 'Ready', 'True', 'Applied');
    await patchRule('back', { rollout: 'Replay', definition: { minimum: 30 } });
    await fixture.ruleBecomes('back', 'Ready', 'True', 'Replayed');
    // A pass that applies something else leaves it, too.
    const ref = { namespace: fixture.namespace, name };
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { graceSeconds: 120 } });
    await waitFor(async () => (await fixture.monitor(name)).status?.observedGeneration === 2, {
      what: 'the Monitor is reconciled',
    });
    await rowsBecome(name, { minimum: 10 });
    await patchRule('back', { rollout: 'Apply' });
    await rowsBecome(name, { minimum: 30 });
    await patchRule('back', { rollout: 'Replay' });
    await fixture.ruleBecomes('back', 'Ready', 'True', 'Replayed');
    await removeRule('back');
    await rowsBecome(name, undefined);
  });
});
