// What opened an incident of a rule, as a sentence for people.
import { spanWords } from '../explain/words.ts';
import type { Check, CompiledMeasurement } from './compile.ts';
import { HISTORY, type Reading, type ViolationRow } from './state.ts';

export interface Summarized {
  measurement: CompiledMeasurement;
  check: Check;
  row: ViolationRow;
  /** *v* and *p* before `transform`. Undefined: no beat opens the incident, but the time. */
  reading?: Reading;
}

/** Such as "rows is 0, below its minimum of 1, 3 times in a row." */
export function summaryOf(summarized: Summarized): string {
  return `${violationWords(summarized)}${rowWords(summarized)}.`;
}

function violationWords({ measurement, check, row: { value }, reading }: Summarized): string {
  switch (check.kind) {
    case 'minimum':
      return `${subjectOf(measurement)} is ${numberWords(value, check.low)}, below its minimum of ${check.low}`;
    case 'maximum':
      return `${subjectOf(measurement)} is ${numberWords(value, check.high)}, above its maximum of ${check.high}`;
    case 'maximumAbsoluteDelta': {
      const change = `by ${numberWords(value, check.high)}${rangeWords(reading)}`;
      return `${subjectOf(measurement)} ${verbOf(reading)} ${change}, more than ${check.high}`;
    }
    case 'maximumPercentageDelta': {
      // Any change from 0 is more than a percentage can say.
      const isEndless = value === Number.MAX_VALUE;
      const change = isEndless
        ? rangeWords(reading)
        : ` by ${numberWords(value, check.high)} %${rangeWords(reading)}`;
      return `${subjectOf(measurement)} ${verbOf(reading)}${change}, more than ${check.high} %`;
    }
    case 'zeroExpectation': {
      const expected = check.expects === 'zero' ? 'and should be 0' : 'and should not be';
      return `${subjectOf({ ...measurement, log1p: false })} is ${numberWords(value, 0)} ${expected}`;
    }
    case 'ratio': {
      const isBelow = value < check.low;
      const bound = isBelow ? check.low : check.high;
      const ratio = `${measurement.key} / ${check.denominator} is ${numberWords(value, bound)}`;
      return `${ratio}, ${isBelow ? 'below' : 'above'} ${bound}`;
    }
  }
}

function subjectOf({ key, metricType, log1p }: CompiledMeasurement): string {
  if (metricType !== 'counter') return log1p ? `log1p of ${key}` : key;
  return log1p ? `log1p of the increase of ${key}` : `The increase of ${key}`;
}

function verbOf({ value, previous }: Partial<Reading> = {}): string {
  if (value === undefined || previous === undefined) return 'changed';
  return value > previous ? 'rose' : 'fell';
}

function rangeWords({ value, previous }: Partial<Reading> = {}): string {
  if (value === undefined || previous === undefined) return '';
  return ` (from ${shortWords(previous)} to ${shortWords(value)})`;
}

function rowWords({ measurement, row, reading }: Summarized): string {
  const { elapsedMs } = measurement.policy;
  if (!reading && elapsedMs !== undefined) return `, for ${spanWords(elapsedMs)}`;
  if (row.row === 1) return '';
  return `, ${row.row === HISTORY ? 'at least ' : ''}${row.row} times in a row`;
}

/** As short as it can be without reading like the bound. */
function numberWords(value: number, bound: number): string {
  const short = shortWords(value);
  return short === String(bound) ? String(value) : short;
}

/** With 12 digits: 0.1 + 0.2 is 0.3. */
function shortWords(value: number): string {
  return String(Number(value.toPrecision(12)));
}
