// Times on the wire.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { toTime } from '../../../src/domain/timestamp.ts';

const DAY_MS = 86_400_000;

it('a time is written as a Date writes it, in whatever year, also one with fractions of a millisecond', () => {
  const any = fc.double({ min: -1e14, max: 4e14, noNaN: true });
  const midnight = fc
    .record({ day: fc.integer({ min: -800_000, max: 3_000_000 }), ms: fc.integer({ min: -2, max: 2 }) })
    .map(({ day, ms }) => day * DAY_MS + ms);
  fc.assert(
    fc.property(fc.oneof(any, midnight), (ms) => {
      expect(toTime(ms)).toBe(new Date(ms).toISOString());
    }),
    { numRuns: 5_000 },
  );
  expect(() => toTime(Number.NaN)).toThrow(RangeError);
  expect(() => toTime(1e16)).toThrow(RangeError);
});
