import { expect, it } from 'vitest';
import { median, percentile, ratiosTo } from '../../../bench/table.ts';

it('the median of an even number of values is between the two in the middle', () => {
  expect(median([4, 1, 3, 2])).toBe(2.5);
  expect(median([9, 1, 5])).toBe(5);
});

it('a percentile is the lowest value that so many do not exceed', () => {
  const values = Array.from({ length: 200 }, (_, place) => place + 1);
  expect(percentile(values, 0.99)).toBe(198);
  expect(percentile(values, 0.5)).toBe(100);
  expect(percentile([7], 0.99)).toBe(7);
  expect(percentile([], 0.99)).toBe(Number.NaN);
});

it('each value is divided by that of its own pair', () => {
  expect(ratiosTo([2, 4], [1, 8])).toEqual([0.5, 2]);
});
