// Suggests a rule from past values (docs/contract/rules.md): bounds that nearly all of them keep, and how many violations in
// a row are worth an incident. Pure.
import type { MeasurementRule } from '../monitor.ts';
import { DAY_MS } from '../retention.ts';
import { finite } from './compare.ts';

/** Fewer values say too little. */
export const MIN_VALUES = 20;
/** The share of the values that may lie below `low`, and that may lie above `high`. */
export const TAIL_SHARE = 0.01;
/** Violations in a row that open an incident: the first number from 1 on that is calm, but no more than this. */
export const MAX_ROW = 3;

export interface ValueSummary {
  count: number;
  smallest: number;
  /** The percentile of `TAIL_SHARE`, by nearest rank. */
  low: number;
  median: number;
  high: number;
  largest: number;
}

/** `values`: ascending, one at least. */
export function summarizeValues(values: Float64Array): ValueSummary {
  const count = values.length;
  const rank = (share: number) => Math.max(1, Math.ceil(share * count)) - 1;
  const at = (index: number) => (values[index] as number) + 0;
  return {
    count,
    smallest: at(0),
    low: at(rank(TAIL_SHARE)),
    median: at(rank(0.5)),
    high: at(count - 1 - rank(TAIL_SHARE)),
    largest: at(count - 1),
  };
}

/** The bounds in their order. At most twice `TAIL_SHARE` of the values violate them. */
export function suggestBounds(
  { smallest, low, high, largest }: ValueSummary,
  { metricType, isWhole }: { metricType: MeasurementRule['metricType']; isWhole: boolean },
): Pick<MeasurementRule, 'minimum' | 'maximum'> {
  const spread = finite(high - low);
  const minimum = boundBelow({ near: low, far: smallest }, spread, isWhole);
  // The maximum is the minimum of the negative values.
  const maximum = -boundBelow({ near: -high, far: -largest }, spread, isWhole) + 0;
  return minimum <= 0 && refusesNegative(metricType) ? { maximum } : { minimum, maximum };
}

/** At most one incident for each week begun. */
export function isCalm(incidents: number, spanMs: number): boolean {
  return incidents <= Math.max(1, Math.ceil(spanMs / (7 * DAY_MS)));
}

/** `far`: the smallest value. `near`: the one that the bound must not be above. */
function boundBelow({ near, far }: { near: number; far: number }, spread: number, isWhole: boolean): number {
  if (spread === 0) return near;
  const wide = near - spread / 4;
  if (far < 0) return finite(roundDown(wide, spread, isWhole));
  if (far === 0) return finite(Math.max(0, roundDown(wide, spread, isWhole)));
  // No value is 0: neither is the bound, so that 0 violates it.
  const rounded = roundDown(Math.max(wide, near / 2), spread, isWhole);
  return finite(Math.max(isWhole ? 1 : Number.MIN_VALUE, rounded));
}

/** To a multiple of 1, 2 or 5 times a power of ten that is at most a tenth of the spread and of the value. */
function roundDown(value: number, spread: number, isWhole: boolean): number {
  const size = Math.min(spread, Math.abs(value)) / 10;
  const { digit, exponent } = isWhole && size < 1 ? { digit: 1, exponent: 0 } : stepOf(size);
  const digits = Math.floor(value / (digit * 10 ** exponent)) * digit;
  // Text, because 3 × 0.1 is not 0.3. Where a step is too small to count, the value is as fine as numbers of its size are.
  return Number.isSafeInteger(digits) ? Number(`${digits}e${exponent}`) : value;
}

function stepOf(size: number): { digit: number; exponent: number } {
  const exponent = Math.floor(Math.log10(size));
  const first = size / 10 ** exponent;
  return { digit: first >= 5 ? 5 : first >= 2 ? 2 : 1, exponent };
}

function refusesNegative(metricType: MeasurementRule['metricType']): boolean {
  return metricType !== undefined && metricType !== 'gauge' && metricType !== 'rate';
}
