// Which buckets a series has, and from where its parts are read.
import { describe, expect, it } from 'vitest';
import { addSums, countBuckets, planSeries } from '../../../src/domain/series.ts';

const at = (time: string) => Date.parse(`2026-06-${time}Z`);
/** Noon of the 15th: observations are kept from the 16th of May on, and hours are summed up until the 14th. */
const CLOCK = { nowMs: at('15T12:00:00'), summedMs: at('14T00:00:00') };
const span = (from: string, to: string) => ({ fromMs: at(from), toMs: at(to) });
const DAY_MS = 86_400_000;
const daysUntilNow = (days: number) => ({ fromMs: CLOCK.nowMs - days * DAY_MS, toMs: CLOCK.nowMs });

describe('the length of buckets', () => {
  it.each([
    [span('15T11:00:00', '15T11:00:01'), 60],
    [span('15T04:00:00', '15T12:00:00'), 60],
    [daysUntilNow(1), 300],
    [daysUntilNow(30), 10_800],
    [daysUntilNow(365), 86_400],
  ])('without a wish it is the least usual one that makes at most 500 buckets: %o', (wide, bucketSeconds) => {
    expect(planSeries(wide, undefined, CLOCK).bucketSeconds).toBe(bucketSeconds);
    expect(countBuckets(wide, bucketSeconds)).toBeLessThanOrEqual(500);
  });

  it('without a wish it is an hour at least where observations are no longer kept', () => {
    const old = { fromMs: CLOCK.nowMs - 40 * DAY_MS, toMs: CLOCK.nowMs - 40 * DAY_MS + 60_000 };
    expect(planSeries(old, undefined, CLOCK).bucketSeconds).toBe(3600);
  });

  it('a bucket that is no whole number of hours is refused where observations are no longer kept', () => {
    for (const bucketSeconds of [60, 5400]) {
      expect(() => planSeries(daysUntilNow(31), bucketSeconds, CLOCK)).toThrow(
        expect.objectContaining({
          options: expect.objectContaining({
            fieldErrors: [expect.objectContaining({ path: 'bucketSeconds', code: 'too_fine' })],
          }),
        }),
      );
      // The day that 30 days ago was.
      expect(planSeries(daysUntilNow(30.4), bucketSeconds, CLOCK).parts).toHaveLength(1);
    }
  });
});

describe('a span with more beats than are read at once', () => {
  it('has whole hours without a wish, and refuses what is finer', () => {
    expect(planSeries(daysUntilNow(1), undefined, CLOCK, true).bucketSeconds).toBe(3600);
    expect(planSeries(daysUntilNow(1), 7200, CLOCK, true).bucketSeconds).toBe(7200);
    expect(() => planSeries(daysUntilNow(1), 300, CLOCK, true)).toThrow(
      expect.objectContaining({
        options: expect.objectContaining({
          fieldErrors: [
            {
              path: 'bucketSeconds',
              code: 'too_fine',
              message:
                'Must be a multiple of 3600 where the monitor has so many beats between since and until: only whole hours are summed up.',
            },
          ],
        }),
      }),
    );
  });
});

describe('the parts of a series', () => {
  it('hours that are summed up are read from their sums, the edges and what is young from observations', () => {
    expect(planSeries(span('10T08:30:00', '15T11:15:00'), 3600, CLOCK).parts).toEqual([
      { source: 'observations', ...span('10T08:30:00', '10T09:00:00') },
      { source: 'hours', ...span('10T09:00:00', '14T00:00:00') },
      { source: 'observations', ...span('14T00:00:00', '15T11:15:00') },
    ]);
  });

  it('fine buckets, and spans within one hour, are read from observations alone', () => {
    for (const [wanted, wide] of [
      [60, span('10T08:30:00', '10T12:00:00')],
      [3600, span('10T08:10:00', '10T08:20:00')],
      [3600, span('14T08:00:00', '15T08:00:00')],
    ] as const) {
      expect(planSeries(wide, wanted, CLOCK).parts).toEqual([{ source: 'observations', ...wide }]);
    }
  });

  it('where observations are gone the hours at the edges count whole', () => {
    const old = { fromMs: at('01T10:30:00') - 60 * DAY_MS, toMs: at('01T12:10:00') - 60 * DAY_MS };
    expect(planSeries(old, 3600, CLOCK).parts).toEqual([
      { source: 'hours', fromMs: old.fromMs - 1_800_000, toMs: old.toMs + 3_000_000 },
    ]);
  });

  it('observations that are not summed up yet are read as they are, however old they are', () => {
    const late = { ...CLOCK, summedMs: CLOCK.nowMs - 50.5 * DAY_MS };
    expect(planSeries(daysUntilNow(40), 60, late).parts).toEqual([
      { source: 'observations', ...daysUntilNow(40) },
    ]);
  });
});

describe('two parts of a bucket', () => {
  it('the mean is that of all values, also of the greatest that there are', () => {
    const sums = (count: number, value: number) => ({ count, minimum: value, maximum: value, mean: value });
    expect(addSums(sums(1, 2), sums(3, 6))).toEqual({ count: 4, minimum: 2, maximum: 6, mean: 5 });
    const most = sums(1, Number.MAX_VALUE);
    expect(addSums(most, most).mean).toBe(Number.MAX_VALUE);
  });
});
