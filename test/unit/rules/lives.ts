// Random lives of a monitor with rules: what its definitions are, what its beats carry, and what happens to it.
import fc from 'fast-check';
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import { type Definitions, kindsOf, ownOf } from './reference-violations.ts';

/** `constructor`: what every object has. */
const KEYS = ['rows', 'files', 'constructor'] as const;

const consequence = fc.constantFrom('none', 'info', 'warning', 'critical') as fc.Arbitrary<
  'none' | 'info' | 'warning' | 'critical'
>;
const severity = fc.constantFrom('info', 'warning', 'critical') as fc.Arbitrary<
  'info' | 'warning' | 'critical'
>;

const anyPolicy: fc.Arbitrary<MeasurementRule['rulePolicy']> = fc.oneof(
  fc.constant(undefined),
  fc.record({ consecutiveObservations: fc.integer({ min: 1, max: 3 }), severity }),
  fc.record({
    version: fc.constant(1 as const),
    transientConsequence: consequence,
    sustainedConsequence: consequence,
    sustainedCriterion: fc.oneof(
      fc.record({ kind: fc.constant('observations' as const), observations: fc.integer({ min: 1, max: 3 }) }),
      fc.record({ kind: fc.constant('elapsed_time' as const), seconds: fc.constantFrom(60, 90, 120, 300) }),
    ),
  }),
);

const bound = fc.constantFrom(-1, 0, 1, 2, 5);
const delta = fc.constantFrom(0, 1, 2, 50, 100);
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 2 });

const anyRule = (key: string): fc.Arbitrary<MeasurementRule> =>
  fc
    .record({
      metricType: maybe(fc.constantFrom('gauge', 'count', 'rate', 'duration', 'counter', 'size')),
      missingPolicy: maybe(fc.constantFrom('skip', 'zero', 'reject')),
      transform: maybe(fc.constantFrom('none', 'log1p')),
      minimum: maybe(bound),
      maximum: maybe(bound),
      maximumAbsoluteDelta: maybe(delta),
      maximumPercentageDelta: maybe(delta),
      zeroExpectation: maybe(fc.constantFrom('zero', 'nonzero')),
      ratio: maybe(
        fc.record({
          denominator: fc.constantFrom(...KEYS.filter((other) => other !== key)),
          minimum: fc.constantFrom(0, 1),
          maximum: fc.constantFrom(1, 2),
        }),
      ),
      ruleAction: maybe(
        fc.record({
          mode: fc.constantFrom('active', 'active', 'inactive'),
          version: fc.constant(1 as const),
        }),
      ),
      rulePolicy: anyPolicy,
    })
    .map((rule) => withoutFaults(rule as MeasurementRule));

/** As the contract takes it. */
function withoutFaults(rule: MeasurementRule): MeasurementRule {
  const { minimum, maximum, ruleAction, transform } = rule;
  const kinds = kindsOf(rule);
  const isCrossed = minimum !== undefined && maximum !== undefined && minimum > maximum;
  const isOfZeroAlone = kinds.length === 1 && kinds[0] === 'zeroExpectation';
  const taken: MeasurementRule = {
    ...rule,
    ...(isCrossed ? { minimum: maximum, maximum: minimum } : {}),
    transform: isOfZeroAlone ? undefined : transform,
    ruleAction: kinds.length === 0 ? undefined : ruleAction,
  };
  // A generated object may have no prototype.
  return JSON.parse(JSON.stringify(taken));
}

export const anyDefinitions: fc.Arbitrary<Definitions> = fc.record(
  Object.fromEntries(KEYS.map((key) => [key, anyRule(key)])),
  { requiredKeys: [] },
) as fc.Arbitrary<Definitions>;

const anyMeasurements = fc.record(
  Object.fromEntries(KEYS.map((key) => [key, fc.constantFrom(0, 0, 1, 2, 3, 4, 6, 0.5, -1)])),
  { requiredKeys: [] },
) as fc.Arbitrary<Record<string, number>>;

export interface BeatStep {
  kind: 'beat';
  measurements: Record<string, number>;
  afterSeconds: number;
  /** What was remembered is lost before it. */
  isLost: boolean;
}

export type ChangeStep =
  /** All rules change. */
  | { kind: 'change'; definitions: Definitions }
  /** One field of one rule does. */
  | { kind: 'tweak'; key: string; field: keyof MeasurementRule; of: MeasurementRule };

export type Step =
  | BeatStep
  | ChangeStep
  /** A pause or a maintenance begins, or ends. */
  | { kind: 'quiet' }
  /** A person resolves an incident. */
  | { kind: 'resolve'; place: number };

const beat: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant('beat' as const),
  measurements: anyMeasurements,
  afterSeconds: fc.constantFrom(30, 60, 60, 90, 200),
  isLost: fc.constantFrom(false, false, false, true),
});
const change: fc.Arbitrary<Step> = anyDefinitions.map((definitions) => ({ kind: 'change', definitions }));
const FIELDS: readonly (keyof MeasurementRule)[] = [
  'metricType',
  'missingPolicy',
  'transform',
  'minimum',
  'maximum',
  'maximumAbsoluteDelta',
  'maximumPercentageDelta',
  'zeroExpectation',
  'ratio',
  'ruleAction',
  'rulePolicy',
  // What matters most to the incidents that are open.
  'rulePolicy',
  'rulePolicy',
  'unit',
];
const tweak: fc.Arbitrary<Step> = fc.constantFrom(...KEYS).chain((key) =>
  fc.record({
    kind: fc.constant('tweak' as const),
    key: fc.constant(key),
    field: fc.constantFrom(...FIELDS),
    of: anyRule(key).map((rule) => ({ ...rule, unit: 'rows' })),
  }),
);
const resolve: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant('resolve' as const),
  place: fc.nat(5),
});

/** Beats alone, with what was remembered lost in between. */
export const anyBeats: fc.Arbitrary<Step[]> = fc.array(beat, { maxLength: 25, size: 'max' });

/** Beats and changes of the rules. */
export const anyChanges: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { arbitrary: beat, weight: 12 },
    { arbitrary: change, weight: 1 },
    { arbitrary: tweak, weight: 3 },
  ),
  { maxLength: 30, size: 'max' },
);

export const anyLife: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { arbitrary: beat, weight: 14 },
    { arbitrary: change, weight: 1 },
    { arbitrary: tweak, weight: 2 },
    { arbitrary: fc.constant<Step>({ kind: 'quiet' }), weight: 1 },
    { arbitrary: resolve, weight: 2 },
  ),
  { maxLength: 30, size: 'max' },
);

/** The definitions after a change of them. */
export function changed(definitions: Definitions, step: ChangeStep): Definitions {
  if (step.kind === 'change') return step.definitions;
  const { key, field, of } = step;
  const rule = { ...ownOf(definitions, key), [field]: of[field] };
  return { ...definitions, [key]: withoutFaults(rule) };
}

const beatOf = (rows: number | undefined, afterSeconds = 60): Step => ({
  kind: 'beat',
  measurements: rows === undefined ? {} : { rows },
  afterSeconds,
  isLost: false,
});
const byTime: MeasurementRule['rulePolicy'] = {
  version: 1,
  transientConsequence: 'none',
  sustainedConsequence: 'critical',
  sustainedCriterion: { kind: 'elapsed_time', seconds: 120 },
};

/** Lives with what random ones seldom have. */
export const KNOWN_LIVES: [Definitions, Step[]][] = [
  // A policy that counts the time comes in a pause, in which the time of an older violation passes.
  [
    {},
    [
      { kind: 'quiet' },
      beatOf(0, 30),
      { kind: 'change', definitions: { rows: { minimum: 1, rulePolicy: byTime } } },
      beatOf(undefined, 200),
      { kind: 'quiet' },
      beatOf(undefined, 30),
    ],
  ],
  // A policy that counts the time comes after a beat that was refused, and the time after it.
  [
    {
      rows: { metricType: 'count', minimum: 2, rulePolicy: { consecutiveObservations: 3, severity: 'info' } },
    },
    [
      beatOf(1),
      beatOf(0.5),
      { kind: 'tweak', key: 'rows', field: 'rulePolicy', of: { rulePolicy: byTime } },
      beatOf(undefined, 200),
      beatOf(1),
    ],
  ],
  // A person resolves what the time has opened: it does not come back before the next violation.
  [
    { rows: { minimum: 2, rulePolicy: byTime } },
    [beatOf(1), beatOf(undefined, 200), { kind: 'resolve', place: 0 }, beatOf(undefined, 200), beatOf(1)],
  ],
  // The time comes in a pause, in which a beat comes without the measurement.
  [
    { rows: { minimum: 2, rulePolicy: byTime } },
    [beatOf(1), { kind: 'quiet' }, beatOf(undefined, 200), { kind: 'quiet' }, beatOf(undefined), beatOf(2)],
  ],
  // Another rule changes before the time comes, and the policy of the rule itself after it.
  [
    { rows: { minimum: 2, rulePolicy: byTime } },
    [
      beatOf(1),
      { kind: 'tweak', key: 'files', field: 'minimum', of: { minimum: 1 } },
      beatOf(undefined, 200),
      { kind: 'tweak', key: 'rows', field: 'rulePolicy', of: { rulePolicy: undefined } },
      { kind: 'tweak', key: 'rows', field: 'rulePolicy', of: { rulePolicy: byTime } },
      beatOf(1),
    ],
  ],
];
