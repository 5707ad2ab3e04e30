// What a rule compares, and whether it is violated: the table of docs/contract/rules.md. Numbers in, numbers out; every
// result is a number, be it Infinity, and never NaN.
import type { Check, CompiledMeasurement } from './compile.ts';

export type Measurements = Readonly<Record<string, number>>;

/** The state of a measurement as far as values need it. */
export interface Before {
  /** Of the last success that had the key: its value as sent. */
  raw?: number;
  /** Of a counter: the increase to `raw`. Undefined where `raw` was the first. */
  increase?: number;
}

/** The value that a beat carries. A key may be the name of something that every object has (`constructor`). */
export function rawOf(measurements: Measurements, key: string): number | undefined {
  const raw: unknown = measurements[key];
  return typeof raw === 'number' ? raw : undefined;
}

/** *v* before `transform`. Undefined: nothing is evaluated. */
export function currentOf(
  measurement: CompiledMeasurement,
  before: Before | undefined,
  raw: number | undefined,
): number | undefined {
  if (raw === undefined) return measurement.missingPolicy === 'zero' ? 0 : undefined;
  return measurement.metricType === 'counter' ? increaseOf(before, raw) : raw;
}

/** Of a counter: a decrease is a reset, and counts from 0. The first value has none. */
export function increaseOf(before: Before | undefined, raw: number): number | undefined {
  if (before?.raw === undefined) return undefined;
  return raw < before.raw ? raw : raw - before.raw;
}

/** *p* before `transform`. */
export function previousOf(measurement: CompiledMeasurement, before: Before | undefined): number | undefined {
  return measurement.metricType === 'counter' ? before?.increase : before?.raw;
}

/**
 * What the rule compares with its bounds: the value, the difference, the percentage or the ratio. Undefined: the rule is not
 * evaluated. `value` and `previous` are *v* and *p* before `transform`, which counts for bounds and deltas alone.
 */
export function comparedOf(
  { log1p, missingPolicy }: CompiledMeasurement,
  check: Check,
  value: number,
  previous: number | undefined,
  measurements: Measurements,
): number | undefined {
  switch (check.kind) {
    case 'minimum':
    case 'maximum':
      return log1p ? Math.log1p(value) : value;
    case 'maximumAbsoluteDelta':
      if (previous === undefined) return 0;
      return log1p ? Math.abs(Math.log1p(value) - Math.log1p(previous)) : Math.abs(value - previous);
    case 'maximumPercentageDelta':
      if (previous === undefined) return 0;
      return log1p
        ? percentage(Math.log1p(value), Math.log1p(previous), check.high)
        : percentage(value, previous, check.high);
    case 'zeroExpectation':
      return value;
    case 'ratio': {
      const divisor = rawOf(measurements, check.denominator ?? '') ?? 0;
      if (divisor !== 0) return value / divisor;
      return missingPolicy === 'zero' ? 0 : undefined;
    }
  }
}

/**
 * How much `value` differs from `previous`, in per cent of `previous`. A quotient is rounded, and 7 of 100 may become
 * 7.000000000000001 %: where the products say that `bound` is kept, it is kept.
 */
function percentage(value: number, previous: number, bound: number): number {
  if (previous === 0) return value === 0 ? 0 : Number.POSITIVE_INFINITY;
  // So that the product is a number; a division by a power of two rounds nothing of that size.
  const scale = Math.max(Math.abs(value), Math.abs(previous)) > 1e300 ? 1024 : 1;
  const product = Math.abs(value / scale - previous / scale) * 100;
  const base = Math.abs(previous / scale);
  return product <= bound * base ? Math.min(product / base, bound) : product / base;
}

/** The bound that is crossed. Undefined: the rule holds. */
export function crossedBound(check: Check, compared: number): number | 'zero' | 'nonzero' | undefined {
  if (check.expects !== undefined)
    return (compared === 0) === (check.expects === 'zero') ? undefined : check.expects;
  if (compared < check.low) return check.low;
  return compared > check.high ? check.high : undefined;
}

/** JSON has no Infinity, and −0 is 0. */
export function finite(value: number): number {
  return Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value)) + 0;
}
