// What violates a rule, in its slowest and plainest form, from the tables of docs/contract/rules.md: the whole history is read
// again at each beat. It shares nothing with src/domain/rules but types.
import { isDeepStrictEqual } from 'node:util';
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import type { RuleKind } from '../../../src/domain/rules/rule-kinds.ts';
import type { RuleObservation, Violation } from '../../../src/domain/rules/state.ts';

export type Definitions = Record<string, MeasurementRule>;

const KINDS: RuleKind[] = [
  'minimum',
  'maximum',
  'maximumAbsoluteDelta',
  'maximumPercentageDelta',
  'zeroExpectation',
  'ratio',
];

type Outcome = { bound: number | 'zero' | 'nonzero'; value: number } | 'conforms' | undefined;

/** The own value of a key: every object has a `constructor`. */
export function ownOf<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}

/** "A success is refused": whether one measurement refuses it. */
function refuses(key: string, rule: MeasurementRule, { measurements }: RuleObservation): boolean {
  const value = ownOf(measurements, key);
  if (rule.missingPolicy === 'reject') {
    if (value === undefined) return true;
    if (rule.ratio && !ownOf(measurements, rule.ratio.denominator)) return true;
  }
  if (value === undefined) return false;
  if (['duration', 'size', 'count', 'counter'].includes(rule.metricType ?? '') && value < 0) return true;
  if (['count', 'counter'].includes(rule.metricType ?? '') && value % 1 !== 0) return true;
  return rule.transform === 'log1p' && value <= -1;
}

export function isRefused(definitions: Definitions, observation: RuleObservation): boolean {
  return Object.entries(definitions).some(([key, rule]) => refuses(key, rule, observation));
}

/** The rows of the table for the newest of `history`. */
export function outcomeOf(
  key: string,
  kind: RuleKind,
  rule: MeasurementRule,
  history: RuleObservation[],
): Outcome {
  const past = history.filter((one) => !refuses(key, rule, one));
  const newest = history.at(-1);
  if (!newest || past.at(-1) !== newest) return undefined;
  const carried = past.filter(({ measurements }) => ownOf(measurements, key) !== undefined);
  const sent = carried.map(({ measurements }) => measurements[key] as number);
  // Each carried value with what `metricType` makes of it.
  const values = sent.map((value, index) => {
    if (rule.metricType !== 'counter') return value;
    const before = sent[index - 1];
    if (before === undefined) return undefined;
    return value >= before ? value - before : value;
  });
  const isCarried = carried.at(-1) === newest;
  if (!isCarried && rule.missingPolicy !== 'zero') return undefined;
  const plainV = isCarried ? values.at(-1) : 0;
  const plainP = isCarried ? values.at(-2) : values.at(-1);
  if (plainV === undefined) return undefined;
  const transform = (value: number) => (rule.transform === 'log1p' ? Math.log1p(value) : value);
  const v = transform(plainV);
  const p = plainP === undefined ? undefined : transform(plainP);
  switch (kind) {
    case 'minimum':
      return v < (rule.minimum as number) ? { bound: rule.minimum as number, value: v } : 'conforms';
    case 'maximum':
      return v > (rule.maximum as number) ? { bound: rule.maximum as number, value: v } : 'conforms';
    case 'maximumAbsoluteDelta': {
      const bound = rule.maximumAbsoluteDelta as number;
      return p !== undefined && Math.abs(v - p) > bound ? { bound, value: Math.abs(v - p) } : 'conforms';
    }
    case 'maximumPercentageDelta': {
      const bound = rule.maximumPercentageDelta as number;
      if (p === undefined) return 'conforms';
      if (p === 0) return v === 0 ? 'conforms' : { bound, value: Number.MAX_VALUE };
      const change = Math.abs(v - p);
      // Without a division, which rounds.
      return change * 100 > bound * Math.abs(p) ? { bound, value: (change / Math.abs(p)) * 100 } : 'conforms';
    }
    case 'zeroExpectation': {
      const bound = rule.zeroExpectation as 'zero' | 'nonzero';
      if (bound === 'zero') return plainV === 0 ? 'conforms' : { bound, value: plainV };
      return plainV === 0 ? { bound, value: 0 } : 'conforms';
    }
    case 'ratio': {
      const { denominator, minimum, maximum } = rule.ratio as NonNullable<MeasurementRule['ratio']>;
      const d = ownOf(newest.measurements, denominator);
      if (!d && rule.missingPolicy !== 'zero') return undefined;
      const value = d ? plainV / d : 0;
      if (minimum !== undefined && value < minimum) return { bound: minimum, value };
      return maximum !== undefined && value > maximum ? { bound: maximum, value } : 'conforms';
    }
  }
}

export function kindsOf(rule: MeasurementRule): RuleKind[] {
  return KINDS.filter((kind) => rule[kind] !== undefined);
}

/** Whether two definitions of a measurement refuse the same successes and are violated by the same ones. */
export function judgesAlike(one: MeasurementRule | undefined, other: MeasurementRule | undefined): boolean {
  const judging = ({ metricType, missingPolicy, transform, ...rest }: MeasurementRule) => [
    metricType ?? 'gauge',
    missingPolicy ?? 'skip',
    transform ?? 'none',
    ...KINDS.map((kind) => rest[kind]),
  ];
  return isDeepStrictEqual(one && judging(one), other && judging(other));
}

/** The violations of the newest of `history`, in the order of keys and kinds. */
export function violationsOf(definitions: Definitions, history: RuleObservation[]): Violation[] {
  return Object.keys(definitions)
    .sort()
    .flatMap((measurement) => {
      const rule = definitions[measurement] as MeasurementRule;
      return kindsOf(rule).flatMap((kind) => {
        const outcome = outcomeOf(measurement, kind, rule, history);
        return typeof outcome === 'object' ? [{ measurement, rule: kind, ...outcome }] : [];
      });
    });
}

/** The violations in a row up to the newest of `history`, oldest first. What was not evaluated is left out. */
export function rowOf(
  key: string,
  kind: RuleKind,
  rule: MeasurementRule,
  history: RuleObservation[],
): RuleObservation[] {
  const row: RuleObservation[] = [];
  for (let length = history.length; length > 0; length -= 1) {
    const outcome = outcomeOf(key, kind, rule, history.slice(0, length));
    if (outcome === 'conforms') break;
    if (outcome) row.unshift(history[length - 1] as RuleObservation);
  }
  return row;
}
