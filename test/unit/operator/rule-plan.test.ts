// What a pass changes of the measurements that Rules give: the definition is the whole rule, whatever was there before.
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  measurementRuleWithDefaults,
  mergeMeasurementRule,
} from '../../../src/contract/resources/measurement-rule-patch.ts';
import { PUBLISHED_LIMITS, updateMonitorBody } from '../../../src/contract/resources/monitor.ts';
import { desiredMonitor } from '../../../src/operator/kinds/monitor/desired-monitor.ts';
import { withWholeRatios } from '../../../src/operator/kinds/monitor/monitor-plan.ts';
import { planRule } from '../../../src/operator/kinds/monitor/rules/rule-plan.ts';
import { RuleSpread } from '../../../src/operator/kinds/monitor/rules/rule-spread.ts';
import type { GivenRule } from '../../../src/operator/kinds/rule/apply/given-rules.ts';
import type { RuleObject } from '../../../src/operator/kinds/rule/rule-object.ts';
import { desired, monitorObject, NOW, plan, record } from './resources.ts';

const given = (definition: object | undefined, measurementKey = 'rows'): GivenRule => ({
  ...{ name: 'rule', uid: 'r1', measurementKey, definitionHash: 'h1' },
  rule:
    definition === undefined
      ? undefined
      : ({ metadata: { name: 'rule', uid: 'r1' }, spec: { measurementKey, definition } } as RuleObject),
});

const optional = <T>(arb: fc.Arbitrary<T>) => fc.option(arb, { nil: undefined });
const definitionArb = fc.record({
  metricType: optional(fc.constantFrom('gauge', 'count', 'counter')),
  minimum: optional(fc.integer({ min: 0, max: 3 })),
  maximum: optional(fc.integer({ min: 4, max: 9 })),
  maximumPercentageDelta: optional(fc.integer({ min: 0, max: 3 })),
  zeroExpectation: optional(fc.constantFrom('zero', 'nonzero')),
  ratio: optional(
    fc.constantFrom(
      { denominator: 'all', minimum: 1 },
      { denominator: 'all', maximum: 2 },
      { denominator: 'some', maximum: 2 },
    ),
  ),
  missingPolicy: optional(fc.constantFrom('skip', 'zero', 'reject')),
  unit: optional(fc.constantFrom('rows', 'bytes')),
  disabledRules: optional(fc.subarray(['minimum', 'ratio'])),
  rulePolicy: optional(fc.constantFrom({ consecutiveObservations: 2, severity: 'info' })),
});
const patchBody = updateMonitorBody(PUBLISHED_LIMITS);

/** The rule of a measurement as the API shows it, after a patch of it. */
function shownAfter(before: object | undefined, patch: object) {
  const parsed = patchBody.parse({ patch: { measurements: { rows: patch } } }).patch.measurements?.rows;
  const stored = before === undefined ? undefined : mergeMeasurementRule('rows', undefined, before);
  const current = stored !== undefined && 'rule' in stored ? stored.rule : undefined;
  const merged = mergeMeasurementRule('rows', current, parsed ?? {});
  if (!('rule' in merged)) throw new Error(JSON.stringify(merged.faults));
  return measurementRuleWithDefaults(merged.rule);
}

describe('the plan of a given rule', () => {
  it('brings any rule to any definition as if there had been none, in one patch', () => {
    const property = fc.property(optional(definitionArb), definitionArb, (before, definition) => {
      const has = record({
        measurements: before === undefined ? {} : { rows: shownAfter(undefined, before) },
      });
      const planned = planRule(given(definition), has);
      const alone = mergeMeasurementRule('rows', undefined, definition as never);
      if (!('rule' in alone)) {
        expect(planned.kind).toBe('invalid');
        return;
      }
      const whole = measurementRuleWithDefaults(alone.rule);
      if (planned.kind !== 'patch') {
        expect([planned.kind, has.measurements.rows]).toEqual(['same', whole]);
        return;
      }
      const patch = withWholeRatios({ rows: planned.patch }).rows ?? {};
      const after = shownAfter(before, patch);
      expect(after).toEqual(whole);
      expect(planRule(given(definition), record({ measurements: { rows: after } })).kind).toBe('same');
    });
    fc.assert(property, { numRuns: 500 });
  });

  it('of what a replayed Rule has left changes nothing, and of what no monitor can have says why', () => {
    const has = record({ measurements: { rows: shownAfter(undefined, { minimum: 5 }) } });
    expect(planRule(given(undefined), has)).toEqual({ kind: 'same' });
    expect(planRule(given({ minimum: 9, maximum: 1 }), has)).toEqual({
      kind: 'invalid',
      message: 'The definition is not valid. definition.minimum: Must be at most the maximum.',
    });
  });

  it('leaves a given measurement out of what the spec releases, also where all measurements are recorded', () => {
    const measurements = {
      rows: shownAfter(undefined, { minimum: 5 }),
      bytes: shownAfter(undefined, { minimum: 5 }),
    };
    const goal = desired({}, {}, undefined, [given({ minimum: 5 })]);
    expect(goal.ownedFields).toContain('measurements.rows');
    expect(plan({}, { measurements }, { owned: ['measurements.*'] }).steps).toEqual([
      { call: 'patch', patch: { measurements: { rows: null, bytes: null } } },
    ]);
    const hashes = [goal, desired(), desired({}, {}, undefined, [given({ minimum: 6 })])].map(
      ({ hash }) => hash,
    );
    expect(hashes[0]).not.toBe(hashes[1]);
    // The definition counts by its hash, which the Rule has.
    expect(hashes[0]).toBe(hashes[2]);
  });

  it('owns its fields and those that the status lists of it, so that they go when the spec states the measurement', () => {
    const ownedFields = ['measurements.rows', 'measurements.rows.minimum', 'measurements.rows_b.minimum'];
    const object = monitorObject({}, {}, { ownedFields });
    const facts = {
      ...{ id: 'mon_1', projectId: 'p1', alias: undefined, namespace: undefined },
      dependencies: { ids: undefined, faults: [], isWaiting: false },
      ...{ isRetryDue: false, nowMs: NOW },
    };
    const ownedOf = (one: GivenRule) => desiredMonitor(object, { ...facts, rules: [one] }).ownedFields;
    expect(ownedOf(given(undefined))).toEqual(ownedFields.slice(0, 2));
    expect(ownedOf(given({ maximum: 1 }))).toEqual([
      ...['measurements.rows', 'measurements.rows.maximum', 'measurements.rows.minimum'],
    ]);
    const measurements = { rows: shownAfter(undefined, { minimum: 5, maximum: 9 }) };
    const owned = ownedOf(given({ minimum: 5, maximum: 9 }));
    expect(plan({ measurements: { rows: { minimum: 6 } } }, { measurements }, { owned }).steps).toEqual([
      { call: 'patch', patch: { measurements: { rows: { minimum: 6, maximum: null } } } },
    ]);
  });
});

describe('the wakes of a Rule’s Monitors', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('are a hundred a second, each Monitor once, and namespaces have turns', () => {
    const woken: string[] = [];
    const spread = new RuleSpread((keys) => woken.push(...keys));
    const keys = (namespace: string, count: number) =>
      Array.from({ length: count }, (_, index) => `${namespace}/m${index}`);
    spread.add(keys('large', 1_000));
    spread.add(keys('large', 1_000).slice(10));
    spread.add(keys('small', 2));
    expect(woken).toHaveLength(10);
    vi.advanceTimersByTime(100);
    expect(woken.slice(10)).toEqual(expect.arrayContaining(keys('small', 2)));
    vi.advanceTimersByTime(900);
    expect(woken).toHaveLength(110);
    vi.advanceTimersByTime(60_000);
    expect(new Set(woken).size).toBe(1_002);
    expect(woken).toHaveLength(1_002);
    // Where none waits the next one is woken at once.
    spread.add(['large/m0']);
    expect(woken).toHaveLength(1_003);
  });
});
