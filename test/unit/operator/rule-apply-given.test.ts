// What Rules give to a Monitor, and what becomes of it: for any Rules of a namespace, against a model that says it plainly.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MANAGED_BY } from '../../../src/contract/crd/custom-resources.ts';
import type { MonitorObject } from '../../../src/operator/kinds/monitor/monitor-object.ts';
import { applyProgressOf } from '../../../src/operator/kinds/rule/apply/apply-progress.ts';
import {
  conflictOfApply,
  progressWords,
  readyOfApply,
} from '../../../src/operator/kinds/rule/apply/apply-words.ts';
import { appliedBy, givenRules } from '../../../src/operator/kinds/rule/apply/given-rules.ts';
import { matches } from '../../../src/operator/kinds/rule/matching.ts';
import type { RuleObject } from '../../../src/operator/kinds/rule/rule-object.ts';

const KEYS = ['bytes', 'rows'] as const;
const APPS = ['a', 'b'] as const;

const monitorOf = (
  given: { name?: string; app?: string; own?: readonly string[] },
  status = {},
): MonitorObject => ({
  metadata: {
    ...{ name: given.name ?? 'backup', namespace: 'payments', uid: `m-${given.name}` },
    labels: { app: given.app ?? 'a' },
  },
  spec: {
    deletionPolicy: 'Archive',
    measurements: Object.fromEntries((given.own ?? []).map((key) => [key, { minimum: 1 }])),
  },
  status,
});

const ruleOf = (name: string, spec: object = {}, metadata: object = {}): RuleObject =>
  ({
    metadata: {
      name,
      namespace: 'payments',
      uid: `r-${name}`,
      annotations: { [MANAGED_BY]: 'test/beatkeeper' },
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...metadata,
    },
    spec: { selector: {}, measurementKey: 'rows', definition: { minimum: 1 }, rollout: 'Apply', ...spec },
  }) as RuleObject;

const ruleArb = fc.record({
  app: fc.constantFrom(undefined, ...APPS),
  key: fc.constantFrom(...KEYS),
  rollout: fc.constantFrom('Apply', 'Replay'),
  minimum: fc.integer({ min: 0, max: 3 }),
  second: fc.integer({ min: 0, max: 2 }),
  leaves: fc.boolean(),
  isClaimed: fc.boolean(),
  hasApplied: fc.boolean(),
});
type Drawn = typeof ruleArb extends fc.Arbitrary<infer Value> ? Value : never;

const rulesOf = (drawn: readonly Drawn[]) =>
  drawn.map(({ app, key, rollout, minimum, second, leaves, isClaimed }, index) =>
    ruleOf(
      `rule-${index}`,
      {
        selector: app === undefined ? {} : { matchLabels: { app } },
        ...{ measurementKey: key, rollout, definition: { minimum } },
      },
      {
        creationTimestamp: `2026-01-01T00:00:0${second}Z`,
        ...(leaves ? { deletionTimestamp: '2026-02-01T00:00:00Z' } : {}),
        ...(isClaimed ? {} : { annotations: {} }),
      },
    ),
  );

describe('the rules that a Monitor is given', () => {
  it('are for each measurement that it does not state the oldest Rule that applies it, else what one has applied that is replayed or not claimed', () => {
    const property = fc.property(
      fc.array(ruleArb, { maxLength: 6 }),
      fc.subarray([...KEYS]),
      fc.constantFrom(...APPS),
      (drawn, own, app) => {
        const rules = rulesOf(drawn);
        // One measurement has one applied rule, as the list of the status has one entry for each.
        const applied = new Map<string, ReturnType<typeof appliedBy>>();
        for (const [index, rule] of rules.entries())
          if (drawn[index]?.hasApplied) applied.set(rule.spec.measurementKey, appliedBy(rule));
        const monitor = monitorOf({ app, own }, { appliedRules: [...applied.values()] });
        const expected = KEYS.flatMap((key) => {
          if (own.includes(key)) return [];
          const about = rules.filter((rule) => rule.spec.measurementKey === key && matches(rule, monitor));
          const candidates = about.filter(
            ({ spec, metadata }) =>
              spec.rollout === 'Apply' && metadata.annotations?.[MANAGED_BY] !== undefined,
          );
          const oldest = candidates.find((one) =>
            candidates.every((other) => {
              const [a, b] = [one, other].map(({ metadata }) => metadata.creationTimestamp ?? '');
              return (
                (a ?? '') < (b ?? '') || (a === b && (one.metadata.uid ?? '') <= (other.metadata.uid ?? ''))
              );
            }),
          );
          if (oldest !== undefined) return [[key, oldest.metadata.uid, 'given']];
          const last = applied.get(key);
          const isKept = about.some(({ metadata }) => metadata.uid === last?.uid);
          return isKept ? [[key, last?.uid, 'kept']] : [];
        });
        const given = givenRules(monitor, rules).map(({ measurementKey, uid, rule }) => [
          measurementKey,
          uid,
          rule === undefined ? 'kept' : 'given',
        ]);
        expect(given).toEqual(expected);
      },
    );
    fc.assert(property, { numRuns: 1_000 });
  });

  it('have another hash with another definition, and none for the order of its fields', () => {
    const hashOf = (definition: object) => appliedBy(ruleOf('a', { definition })).definitionHash;
    expect(hashOf({ minimum: 1, maximum: 2 })).toBe(hashOf({ maximum: 2, minimum: 1 }));
    expect(hashOf({ minimum: 1 })).not.toBe(hashOf({ minimum: 2 }));
  });
});

describe('the progress of a Rule', () => {
  const older = ruleOf('older', {}, { uid: 'r-0' });
  const rule = ruleOf('rule', { definition: { minimum: 2 } });
  const applied = { appliedRules: [appliedBy(rule)] };
  const refusal = { ...appliedBy(rule), reason: 'service.plan_limit_reached', message: 'No such rule.' };
  const unsynced = {
    type: 'Synced',
    status: 'False',
    reason: 'Refused',
    message: 'x',
    lastTransitionTime: 'x',
  };
  const wordsOf = (given: RuleObject, monitors: MonitorObject[], rules: RuleObject[] = [given]) => {
    const progress = applyProgressOf(given, { monitors, rules });
    const { status, reason, message } = readyOfApply(given, progress);
    return [progressWords(progress), status, reason, message];
  };

  it('is ready when each Monitor has it, but for those that state the measurement themselves', () => {
    const monitors = [
      monitorOf({ name: 'a' }, applied),
      monitorOf({ name: 'b', own: ['rows'] }),
      monitorOf({ name: 'c', app: 'other' }, applied),
    ];
    expect(wordsOf(rule, monitors)).toEqual([
      ...['applied 2 of 3', 'True', 'Applied'],
      'Applied to 2 of 3 Monitors. 1 Monitor states rows in the spec, which wins.',
    ]);
  });

  it('waits while a Monitor has another definition, or that of a Rule that had its name', () => {
    const former = { appliedRules: [appliedBy(ruleOf('rule', { definition: { minimum: 1 } }))] };
    const namesake = { appliedRules: [{ ...appliedBy(rule), uid: 'r-other' }] };
    const monitors = [former, namesake, applied].map((status, index) =>
      monitorOf({ name: `${index}` }, status),
    );
    expect(wordsOf(rule, monitors)).toEqual([
      ...['applied 1 of 3', 'Unknown', 'Applying', 'Applied to 1 of 3 Monitors.'],
    ]);
  });

  it('names the first Monitor that cannot have it, and why', () => {
    const monitors = [
      monitorOf({ name: 'z' }, { conditions: [unsynced] }),
      monitorOf({ name: 'b' }, { refusedRules: [refusal] }),
      monitorOf({ name: 'c' }, applied),
    ];
    expect(wordsOf(rule, monitors)).toEqual([
      ...['applied 1 of 3', 'False', 'Refused'],
      '2 Monitors cannot have it, such as b: No such rule. Applied to 1 of 3 Monitors.',
    ]);
    // What was refused of an earlier definition says nothing of this one.
    const stale = { refusedRules: [{ ...refusal, definitionHash: 'another' }] };
    expect(wordsOf(rule, [monitorOf({}, stale)])[2]).toBe('Applying');
  });

  it('is in conflict where an older Rule gives the same measurement to the same Monitor', () => {
    const monitors = [monitorOf({ name: 'a' }), monitorOf({ name: 'b' })];
    const about = ruleOf('older', { monitorRef: { name: 'b' }, selector: undefined }, { uid: 'r-0' });
    expect(wordsOf(rule, monitors, [rule, about])).toEqual([
      ...['applied 0 of 2', 'False', 'Conflict'],
      '1 Monitor has an older Rule for rows, such as b (older). Applied to 0 of 2 Monitors.',
    ]);
    const conflict = conflictOfApply(rule, applyProgressOf(rule, { monitors, rules: [rule, older] }));
    expect(conflict).toMatchObject({ type: 'Conflict', status: 'True', reason: 'OlderRule' });
    const none = [
      ruleOf('replay', { rollout: 'Replay' }, { uid: 'r-0' }),
      ruleOf('other', { measurementKey: 'bytes' }, { uid: 'r-0' }),
    ];
    expect(
      conflictOfApply(rule, applyProgressOf(rule, { monitors, rules: [rule, ...none] })),
    ).toBeUndefined();
    // The older one is in conflict with none.
    expect(wordsOf(older, monitors, [rule, older])[2]).toBe('Applying');
  });

  it('tells a selector that finds nothing from a name that is not there', () => {
    expect(wordsOf(rule, [])).toEqual([
      ...['applied 0 of 0', 'True', 'NoMonitors'],
      'The Rule matches no Monitor. Each that comes to match gets it.',
    ]);
    const named = ruleOf('named', { selector: undefined, monitorRef: { name: 'gone' } });
    expect(wordsOf(named, [monitorOf({})]).slice(1, 3)).toEqual(['False', 'MonitorNotFound']);
  });
});
