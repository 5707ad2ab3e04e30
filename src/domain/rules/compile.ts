// The rules of a monitor, prepared once per configuration, so that a beat is judged without looking at definitions.
import { createHash } from 'node:crypto';
import type { MeasurementRule } from '../monitor.ts';
import { compilePolicy, type Policy } from './policy.ts';
import type { RuleKind } from './rule-kinds.ts';

/** Characters of `of`. */
export const FINGERPRINT_LENGTH = 8;

export interface CompiledRules {
  /** By key, in ascending order: those that have a rule, and those whose form is checked. Empty: there is nothing to do. */
  measurements: ReadonlyMap<string, CompiledMeasurement>;
  /** Those that have a rule, and so a state: first those that look back. */
  judged: readonly CompiledMeasurement[];
  /** Of `judged`, one behind the other. */
  fingerprints: string;
  /** Those of them whose violations become graver by the time that passes without a beat. */
  byTime: readonly CompiledMeasurement[];
  /** How many looks one success takes: one at each key, and one at each of its rules. */
  looks: number;
}

export interface CompiledMeasurement {
  key: string;
  /** The fingerprint of what decides its state, its key included: a state of another one is worth nothing. */
  of: string;
  metricType: NonNullable<MeasurementRule['metricType']>;
  missingPolicy: NonNullable<MeasurementRule['missingPolicy']>;
  log1p: boolean;
  /** In the order of `RULE_KINDS`. Empty: only the form of its values is checked, and it has no state. */
  checks: readonly Check[];
  /** The value of the observation before is needed: for deltas, and for the increase of a counter. */
  looksBack: boolean;
  /** Not `inactive`: violations open incidents. */
  isActive: boolean;
  policy: Policy;
}

/** One rule: a compared value below `low` or above `high`, or against `expects`, violates it. */
export interface Check {
  kind: RuleKind;
  /** −Infinity and Infinity where there is no bound. */
  low: number;
  high: number;
  expects?: 'zero' | 'nonzero';
  /** Of a ratio. */
  denominator?: string;
}

/** `measurements`: as a monitor's configuration has them, valid (docs/contract/rules.md). */
export function compileRules(measurements: Readonly<Record<string, MeasurementRule>>): CompiledRules {
  const compiled = new Map<string, CompiledMeasurement>();
  for (const key of Object.keys(measurements).sort()) {
    const measurement = compileMeasurement(key, measurements[key] as MeasurementRule);
    if (measurement) compiled.set(key, measurement);
  }
  const all = [...compiled.values()];
  const withChecks = all.filter(({ checks }) => checks.length > 0);
  const judged = [
    ...withChecks.filter(({ looksBack }) => looksBack),
    ...withChecks.filter(({ looksBack }) => !looksBack),
  ];
  const byTime = withChecks.filter(
    ({ isActive, policy }) => isActive && policy.elapsedMs !== undefined && policy.met !== undefined,
  );
  return {
    measurements: compiled,
    judged,
    fingerprints: judged.map(({ of }) => of).join(''),
    byTime,
    looks: countLooks(all),
  };
}

/** The measurements that judge those of `keys` (default: all): themselves, and the denominators of their ratios. */
export function keysRead(
  { measurements }: Pick<CompiledRules, 'measurements'>,
  keys: Iterable<string> = measurements.keys(),
): string[] {
  const read = new Set<string>();
  for (const key of keys) {
    read.add(key);
    for (const { denominator } of measurements.get(key)?.checks ?? []) if (denominator) read.add(denominator);
  }
  return [...read];
}

/** How many looks a success takes at these. */
export function countLooks(measurements: readonly CompiledMeasurement[]): number {
  return measurements.reduce((looks, { checks }) => looks + 1 + checks.length, 0);
}

/** Undefined where beats need no look at it. */
function compileMeasurement(key: string, rule: MeasurementRule): CompiledMeasurement | undefined {
  const { metricType = 'gauge', missingPolicy = 'skip', transform = 'none' } = rule;
  const checks = checksOf(rule);
  const isFree = metricType === 'gauge' || metricType === 'rate';
  if (checks.length === 0 && isFree && missingPolicy !== 'reject' && transform === 'none') return undefined;
  return {
    key,
    of: fingerprintOf([key, metricType, missingPolicy, transform, checks.map(identityOf)]),
    metricType,
    missingPolicy,
    log1p: transform === 'log1p',
    checks,
    looksBack: checks.length > 0 && (metricType === 'counter' || checks.some(({ kind }) => isDelta(kind))),
    isActive: rule.ruleAction?.mode !== 'inactive',
    policy: compilePolicy(rule.rulePolicy),
  };
}

function checksOf(rule: MeasurementRule): Check[] {
  const checks: Check[] = [];
  const add = (kind: RuleKind, bounds: Partial<Check>) =>
    // Each field in each check: the engine compares them faster when all have one shape.
    checks.push({
      kind,
      low: Number.NEGATIVE_INFINITY,
      high: Number.POSITIVE_INFINITY,
      expects: undefined,
      denominator: undefined,
      ...bounds,
    });
  const { minimum, maximum, maximumAbsoluteDelta, maximumPercentageDelta, zeroExpectation, ratio } = rule;
  if (minimum !== undefined) add('minimum', { low: minimum });
  if (maximum !== undefined) add('maximum', { high: maximum });
  if (maximumAbsoluteDelta !== undefined) add('maximumAbsoluteDelta', { high: maximumAbsoluteDelta });
  if (maximumPercentageDelta !== undefined) add('maximumPercentageDelta', { high: maximumPercentageDelta });
  if (zeroExpectation !== undefined) add('zeroExpectation', { expects: zeroExpectation });
  if (ratio) {
    const { denominator, minimum: low, maximum: high } = ratio;
    add('ratio', {
      denominator,
      ...(low === undefined ? {} : { low }),
      ...(high === undefined ? {} : { high }),
    });
  }
  return checks;
}

function isDelta(kind: RuleKind): boolean {
  return kind === 'maximumAbsoluteDelta' || kind === 'maximumPercentageDelta';
}

/** Infinity is no JSON: absent bounds are null. */
function identityOf({ kind, low, high, expects, denominator }: Check): unknown[] {
  return [kind, low, high, expects ?? null, denominator ?? null];
}

/**
 * 48 bits. Action, policy and unit are no part of it: they say what violations do, and not which there are, so a change of
 * them keeps the state.
 */
function fingerprintOf(definition: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(definition))
    .digest('base64url')
    .slice(0, FINGERPRINT_LENGTH);
}
