// Suggested bounds: histories whose bounds are worked out by hand, and what holds for every history.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import { compileRules } from '../../../src/domain/rules/compile.ts';
import { findRuleFaults } from '../../../src/domain/rules/faults.ts';
import { replayRules } from '../../../src/domain/rules/replay.ts';
import { isCalm, suggestBounds, summarizeValues, TAIL_SHARE } from '../../../src/domain/rules/suggest.ts';
import { ValueHistory } from '../../../src/domain/rules/value-history.ts';

type Form = Pick<MeasurementRule, 'metricType' | 'missingPolicy'>;
const DAY_MS = 86_400_000;

function suggest(values: readonly number[], metricType?: MeasurementRule['metricType']) {
  const sorted = Float64Array.from(values).sort();
  return suggestBounds(summarizeValues(sorted), { metricType, isWhole: sorted.every(Number.isInteger) });
}

/** The whole numbers from `from` to `to`, or a part of them. */
function range(from: number, to: number, step = 1): number[] {
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, index) => from + index * step);
}

describe('the percentiles of a history', () => {
  it('are by nearest rank', () => {
    const summary = summarizeValues(Float64Array.from(range(1, 200)));
    // The second smallest has 1 of 100 values up to it.
    expect(summary).toEqual({ count: 200, smallest: 1, low: 2, median: 100, high: 199, largest: 200 });
  });

  it('of up to 100 values are the smallest and the largest', () => {
    const summary = summarizeValues(Float64Array.from(range(1, 100)));
    expect(summary).toEqual({ count: 100, smallest: 1, low: 1, median: 50, high: 100, largest: 100 });
    expect(summarizeValues(Float64Array.from(range(0, 100)))).toMatchObject({ low: 1, high: 99 });
  });
});

describe('suggested bounds', () => {
  it.each([
    // 900 to 1,100: a quarter of 200 further out, by tens and twenties.
    ['whole numbers far from 0', range(900, 1_100, 10), { minimum: 840, maximum: 1_160 }],
    // A quarter of 0.9 is 0.225: −0.125 is behind 0, and half of 0.1 is before it; 1.225 by 0.05.
    ['fractions above 0', range(1, 10).map((tenth) => tenth / 10), { minimum: 0.05, maximum: 1.25 }],
    // 0.05 goes by 0.005, which is a tenth of it. −1.225 by 0.05.
    ['fractions below 0', range(1, 10).map((tenth) => -tenth / 10), { minimum: -1.25, maximum: -0.05 }],
    // 0 is there: it is no violation, and −2.5 would cross it. 12.5 by 1.
    ['whole numbers from 0 on', range(0, 10), { minimum: 0, maximum: 13 }],
    ['whole numbers up to 0', range(-10, 0), { minimum: -13, maximum: 0 }],
    // Half of 1 is 0.5, and whole bounds stop at 1.
    ['whole numbers from 1 on', range(1, 10), { minimum: 1, maximum: 13 }],
    ['numbers on both sides of 0', range(-100, 100), { minimum: -150, maximum: 150 }],
    ['one value', [5, 5, 5], { minimum: 5, maximum: 5 }],
    ['zeros', [0, 0, 0], { minimum: 0, maximum: 0 }],
    ['one fraction', [0.1 + 0.2, 0.1 + 0.2], { minimum: 0.1 + 0.2, maximum: 0.1 + 0.2 }],
    // 0.00875 and 0.02225, by 0.0005. A product of both would be 0.022500000000000003.
    ['small numbers', [0.011, 0.02], { minimum: 0.0085, maximum: 0.0225 }],
  ])('of %s', (_, values, bounds) => {
    expect(suggest(values)).toEqual(bounds);
  });

  it('leave one of 100 values outside on each side, and no more', () => {
    const near = new Array(198).fill(50);
    expect(suggest([-1e6, ...near, 1e6])).toEqual({ minimum: 50, maximum: 50 });
    expect(suggest([-1e6, -1e6, ...near.slice(2), 1e6, 1e6])).toEqual({ minimum: -1.5e6, maximum: 1.5e6 });
  });

  it.each(['count', 'counter', 'duration', 'size'] as const)(
    'of a %s have no minimum of 0, which no value can violate',
    (metricType) => {
      expect(suggest(range(0, 10), metricType)).toEqual({ maximum: 13 });
      expect(suggest([0, 0], metricType)).toEqual({ maximum: 0 });
      expect(suggest(range(900, 1_100, 10), metricType)).toEqual({ minimum: 840, maximum: 1_160 });
    },
  );

  it('of the smallest number above 0 are above 0', () => {
    // Half of it is 0.
    expect(suggest([Number.MIN_VALUE, 4 * Number.MIN_VALUE]).minimum).toBe(Number.MIN_VALUE);
  });

  it('of the largest numbers are numbers', () => {
    const { minimum, maximum } = suggest([-Number.MAX_VALUE, 0, Number.MAX_VALUE]);
    expect([minimum, maximum]).toEqual([-Number.MAX_VALUE, Number.MAX_VALUE]);
  });
});

describe('the values of a history', () => {
  const valuesOf = (form: Form, measurements: readonly Record<string, number>[]) => {
    const history = new ValueHistory('rows', form);
    for (const [index, each] of measurements.entries())
      history.take({ sequence: index + 1, atMs: index * 1_000, measurements: each });
    return [...history.sortedValues()];
  };

  it('are what rules compare: increases of a counter, 0 for what is missing, nothing that is refused', () => {
    expect(valuesOf({}, [{ rows: 3 }, { other: 1 }, { rows: -2 }])).toEqual([-2, 3]);
    expect(valuesOf({ missingPolicy: 'zero' }, [{ rows: 3 }, {}])).toEqual([0, 3]);
    expect(valuesOf({ metricType: 'count' }, [{ rows: 3 }, { rows: 0.5 }, { rows: -1 }])).toEqual([3]);
    const raws = [10, 12, 15, 4, 9].map((rows) => ({ rows }));
    expect(valuesOf({ metricType: 'counter' }, raws)).toEqual([2, 3, 4, 5]);
    const gap: Record<string, number>[] = [{ rows: 10 }, {}, { rows: 13 }];
    expect(valuesOf({ metricType: 'counter' }, gap)).toEqual([3]);
    expect(valuesOf({ metricType: 'counter', missingPolicy: 'zero' }, gap)).toEqual([0, 3]);
  });

  it('span the time from the first value to the last', () => {
    const history = new ValueHistory('rows', {});
    const all: Record<string, number>[] = [{}, { rows: 1 }, { rows: 2 }, {}];
    for (const [sequence, measurements] of all.entries())
      history.take({ sequence, atMs: sequence * 1_000, measurements });
    expect([history.spanMs, history.valueCount, history.successCount]).toEqual([1_000, 2, 4]);
  });
});

describe('a calm policy', () => {
  it('opens at most one incident for each week begun', () => {
    expect([isCalm(1, 0), isCalm(2, 0)]).toEqual([true, false]);
    expect([isCalm(1, 7 * DAY_MS), isCalm(2, 7 * DAY_MS)]).toEqual([true, false]);
    expect([isCalm(5, 30 * DAY_MS), isCalm(6, 30 * DAY_MS)]).toEqual([true, false]);
  });
});

const anyNumber = fc.oneof(
  fc.integer({ min: -20, max: 20 }),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.double({ min: 0, max: 1, noNaN: true }),
);
/** Mostly of one kind, so that signs and whole numbers are kept by some. */
const anyHistory = fc.oneof(
  fc.array(anyNumber, { minLength: 1, maxLength: 400 }),
  fc.array(fc.integer({ min: 0, max: 1_000_000 }), { minLength: 1, maxLength: 400 }),
  fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 100, maxLength: 400 }),
  fc.array(fc.double({ min: 1e-9, max: 1e9, noNaN: true }), { minLength: 1, maxLength: 400 }),
  fc.array(fc.double({ min: -1e9, max: -1e-9, noNaN: true }), { minLength: 1, maxLength: 400 }),
);

it('a suggestion flags no more than the stated share of its history, keeps the side of 0 and the whole numbers', () => {
  fc.assert(
    fc.property(
      anyHistory,
      fc.constantFrom<MeasurementRule['metricType'][]>(
        'gauge',
        'rate',
        'duration',
        'count',
        'counter',
        'size',
      ),
      fc.constantFrom<MeasurementRule['missingPolicy'][]>('skip', 'zero', 'reject'),
      fc.boolean(),
      (raws, metricType, missingPolicy, hasGaps) => {
        const form = { metricType, missingPolicy };
        const history = new ValueHistory('rows', form);
        for (const [index, raw] of raws.entries()) {
          const measurements: Record<string, number> = hasGaps && index % 3 === 1 ? {} : { rows: raw };
          history.take({ sequence: index + 1, atMs: index * 1_000, measurements });
        }
        const values = history.sortedValues();
        if (values.length === 0) return;
        const isWhole = values.every(Number.isInteger);
        const summary = summarizeValues(values);
        const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.NaN } = suggestBounds(summary, {
          metricType,
          isWhole,
        });
        expect(minimum).toBeLessThanOrEqual(summary.low);
        expect(maximum).toBeGreaterThanOrEqual(summary.high);
        expect([minimum, maximum].map((bound) => Object.is(bound, -0))).toEqual([false, false]);
        if (summary.smallest > 0) expect(minimum).toBeGreaterThan(0);
        if (summary.smallest >= 0 && minimum > Number.NEGATIVE_INFINITY)
          expect(minimum).toBeGreaterThanOrEqual(0);
        if (summary.largest < 0) expect(maximum).toBeLessThan(0);
        if (summary.largest <= 0) expect(maximum).toBeLessThanOrEqual(0);
        if (isWhole && minimum > Number.NEGATIVE_INFINITY) expect(Number.isInteger(minimum)).toBe(true);
        if (isWhole) expect(Number.isInteger(maximum)).toBe(true);

        const bounds = suggestBounds(summary, { metricType, isWhole });
        const rules = compileRules({ rows: { ...form, ...bounds } });
        const taken = [...history.successes(0, history.successCount)];
        expect(taken.map(({ sequence }) => sequence)).toEqual(raws.map((_, index) => index + 1));
        const judged = taken.filter(({ measurements }) => findRuleFaults(rules, measurements).length === 0);
        const { flagged } = replayRules(rules, judged);
        expect(flagged / summary.count).toBeLessThanOrEqual(2 * TAIL_SHARE);
      },
    ),
    { numRuns: 300 },
  );
});
