// The edges of the numbers: −0, numbers too large or too small for a result, and rounding.
import { describe, expect, it } from 'vitest';
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import { compileRules } from '../../../src/domain/rules/compile.ts';
import { judgeBeat } from '../../../src/domain/rules/judge.ts';
import type { RuleStates, Violation } from '../../../src/domain/rules/state.ts';

const MAX = Number.MAX_VALUE;
const LEAST = Number.MIN_VALUE;

/** The violations of the last of the values of `rows`, or of beats. */
function lastOf(rule: MeasurementRule, ...beats: (number | Record<string, number>)[]): Violation[] {
  const rules = compileRules({ rows: rule });
  let states: RuleStates = {};
  let violations: Violation[] = [];
  for (const [index, beat] of beats.entries()) {
    const measurements = typeof beat === 'number' ? { rows: beat } : beat;
    const observation = { sequence: index + 1, atMs: index, measurements };
    const judged = judgeBeat(rules, states, [], observation, { quiet: false });
    states = JSON.parse(JSON.stringify(judged.states)) as RuleStates;
    violations = judged.violations;
  }
  return violations;
}

const valueOfLast = (rule: MeasurementRule, ...beats: (number | Record<string, number>)[]) =>
  lastOf(rule, ...beats).map(({ value }) => value);

describe('−0', () => {
  it('is 0, for each rule', () => {
    expect(lastOf({ minimum: 0 }, -0)).toEqual([]);
    expect(lastOf({ maximum: -0 }, 0)).toEqual([]);
    expect(lastOf({ zeroExpectation: 'zero' }, -0)).toEqual([]);
    expect(lastOf({ maximumAbsoluteDelta: 0 }, 0, -0)).toEqual([]);
    expect(lastOf({ maximumPercentageDelta: 0 }, -0, 0)).toEqual([]);
    expect(valueOfLast({ maximumPercentageDelta: 50 }, -0, 1)).toEqual([MAX]);
    expect(lastOf({ ratio: { denominator: 'files', minimum: 5 } }, { rows: 1, files: -0 })).toEqual([]);
    const [violation] = lastOf({ zeroExpectation: 'nonzero' }, -0);
    expect(Object.is(violation?.value, 0)).toBe(true);
  });
});

describe('a result that is too large for a number', () => {
  it('is above each bound, and shown as the largest number', () => {
    expect(valueOfLast({ maximumAbsoluteDelta: 1 }, -MAX, MAX)).toEqual([MAX]);
    expect(valueOfLast({ maximumAbsoluteDelta: MAX }, -MAX, MAX)).toEqual([MAX]);
    expect(valueOfLast({ maximumPercentageDelta: MAX }, LEAST, 1)).toEqual([MAX]);
    expect(valueOfLast({ ratio: { denominator: 'files', maximum: 1 } }, { rows: 1, files: LEAST })).toEqual([
      MAX,
    ]);
    expect(valueOfLast({ ratio: { denominator: 'files', minimum: 1 } }, { rows: -1, files: LEAST })).toEqual([
      -MAX,
    ]);
    expect(valueOfLast({ ratio: { denominator: 'files', minimum: 1 } }, { rows: 1, files: LEAST })).toEqual(
      [],
    );
  });

  it('is no such result in a percentage of large numbers', () => {
    expect(valueOfLast({ maximumPercentageDelta: 199 }, -MAX, MAX)).toEqual([200]);
    expect(lastOf({ maximumPercentageDelta: 200 }, -MAX, MAX)).toEqual([]);
    expect(lastOf({ maximumPercentageDelta: MAX }, -MAX, MAX)).toEqual([]);
    expect(valueOfLast({ maximumPercentageDelta: 99 }, MAX, 0)).toEqual([100]);
  });
});

describe('rounding', () => {
  it('violates no percentage that is kept', () => {
    // 7 / 100 * 100 and 7 * 100 / 100: the one is 7.000000000000001 for the processor, others are so the other way.
    for (let percent = 0; percent <= 100; percent += 1) {
      expect(lastOf({ maximumPercentageDelta: percent }, 100, 100 + percent), `${percent}`).toEqual([]);
      expect(lastOf({ maximumPercentageDelta: percent }, 100, 100 + percent + 1), `${percent}`).toHaveLength(
        1,
      );
    }
    for (let hundredths = 1; hundredths <= 1000; hundredths += 1) {
      expect(lastOf({ maximumPercentageDelta: 100 }, hundredths / 100, 0), `${hundredths}`).toEqual([]);
    }
  });

  it('divides once for a ratio', () => {
    expect(
      lastOf({ ratio: { denominator: 'files', minimum: 0.1, maximum: 0.1 } }, { rows: 1, files: 10 }),
    ).toEqual([]);
  });
});

describe('log1p', () => {
  it('counts for bounds and deltas, and not for a ratio and for zero', () => {
    const rule: MeasurementRule = {
      transform: 'log1p',
      maximum: 1,
      zeroExpectation: 'zero',
      ratio: { denominator: 'files', maximum: 2 },
    };
    expect(lastOf(rule, { rows: 7, files: 2 })).toEqual([
      { measurement: 'rows', rule: 'maximum', bound: 1, value: Math.log1p(7) },
      { measurement: 'rows', rule: 'zeroExpectation', bound: 'zero', value: 7 },
      { measurement: 'rows', rule: 'ratio', bound: 2, value: 3.5 },
    ]);
  });
});

describe('a counter', () => {
  const counter = { metricType: 'counter', zeroExpectation: 'nonzero' } as const;

  it('has no value at first, and none of a beat without it', () => {
    expect(lastOf(counter, 0)).toEqual([]);
    expect(valueOfLast(counter, 5, 5)).toEqual([0]);
    expect(lastOf(counter, 5, {}, 5)).toHaveLength(1);
    expect(lastOf(counter, 5, {})).toEqual([]);
  });

  it('counts from 0 after a reset', () => {
    expect(valueOfLast({ metricType: 'counter', maximum: 2 }, 100, 3)).toEqual([3]);
    expect(lastOf({ metricType: 'counter', maximum: 3 }, 100, 3)).toEqual([]);
    expect(valueOfLast(counter, 100, 0)).toEqual([0]);
  });

  it('is 0 where it is missing and that counts as 0, also before its first value', () => {
    const zero = { ...counter, missingPolicy: 'zero' } as const;
    expect(valueOfLast(zero, {})).toEqual([0]);
    expect(valueOfLast(zero, 5, {})).toEqual([0]);
    // The value before the gap is still the one that is counted from.
    expect(valueOfLast({ ...zero, maximum: 3 }, 5, {}, 9)).toEqual([4]);
  });

  it('compares its increase with that before', () => {
    expect(valueOfLast({ metricType: 'counter', maximumAbsoluteDelta: 4 }, 100, 110, 125)).toEqual([5]);
    expect(lastOf({ metricType: 'counter', maximumAbsoluteDelta: 0 }, 100, 110)).toEqual([]);
  });
});
