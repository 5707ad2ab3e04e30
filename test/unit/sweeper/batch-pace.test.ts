import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type BatchEvent,
  type BatchPace,
  firstPace,
  limitOf,
  nextPace,
} from '../../../src/sweeper/deadlines/sweep-state.ts';

type Step = BatchEvent | ((pace: BatchPace) => BatchEvent);

function paceAfter(steps: readonly Step[], pace = firstPace()): BatchPace {
  return steps.reduce<BatchPace>(
    (last, step) => nextPace(last, typeof step === 'function' ? step(last) : step),
    pace,
  );
}

const filled =
  (durationMs: number) =>
  (pace: BatchPace): BatchEvent => ({ type: 'filled', limit: limitOf(pace), durationMs });
const refused = (rows: number): BatchEvent => ({ type: 'refused', rows });
const DRAINED: BatchEvent = { type: 'drained' };
const FAILED: BatchEvent = { type: 'failed' };

describe('the pace of batches', () => {
  it('the first batch has 250 rows, or fewer where a batch may not have as many, and is polled for', () => {
    expect(firstPace()).toEqual({ largest: 1_000, size: 250, mode: 'polling' });
    expect(firstPace(25)).toEqual({ largest: 25, size: 25, mode: 'polling' });
  });

  it('the next batch is sized for half a second: at most twice the last one, from 50 to 1,000 rows', () => {
    expect(paceAfter([filled(1_000)])).toMatchObject({ size: 125, mode: 'draining' });
    expect(paceAfter([filled(400)])).toMatchObject({ size: 313 });
    expect(paceAfter([filled(10)])).toMatchObject({ size: 500 });
    expect(paceAfter(Array.from({ length: 9 }, () => filled(10)))).toMatchObject({ size: 1_000 });
    expect(paceAfter([filled(60_000)])).toMatchObject({ size: 50 });
  });

  it('lanes that end in turn hold their rows for half a second, however slow the machine is', () => {
    const msEach = 2;
    let pace = firstPace();
    const lanes = [limitOf(pace), limitOf(pace), limitOf(pace)];
    const holds: number[] = [];
    for (let end = 0; end < 100; end += 1) {
      const limit = lanes.shift() ?? 0;
      holds.push(limit * msEach);
      pace = nextPace(pace, { type: 'filled', limit, durationMs: limit * msEach });
      lanes.push(limitOf(pace));
    }
    expect(Math.max(...holds)).toBeLessThanOrEqual(500);
  });

  it('a sweep polls again when a batch was not full, and keeps the size', () => {
    expect(paceAfter([filled(400), DRAINED])).toEqual({ largest: 1_000, size: 313, mode: 'polling' });
  });

  it('a batch that failed is followed by a quarter of its size, in the same mode', () => {
    expect(paceAfter([FAILED])).toMatchObject({ size: 63, mode: 'polling' });
    expect(paceAfter([filled(500), FAILED])).toMatchObject({ size: 63, mode: 'draining' });
    expect(paceAfter([FAILED, FAILED])).toMatchObject({ size: 50 });
  });

  it('a refused batch is halved until the row at fault is alone; then the mode and the size are those of before', () => {
    let pace = paceAfter([filled(500)]);
    const limits: number[] = [];
    while (limitOf(pace) > 1) {
      pace = nextPace(pace, refused(limitOf(pace)));
      limits.push(limitOf(pace));
      expect(pace.mode).toBe('isolating');
    }
    expect(limits).toEqual([125, 62, 31, 15, 7, 3, 1]);
    expect(nextPace(pace, refused(1))).toEqual({ largest: 1_000, size: 250, mode: 'draining' });
    expect(paceAfter([refused(250), refused(1)])).toMatchObject({ mode: 'polling' });
  });

  it('the limit doubles up to the size when a batch without the row at fault was full', () => {
    const isolating = paceAfter([refused(100)]);
    expect(limitOf(isolating)).toBe(50);
    const twice = paceAfter([filled(9_000)], isolating);
    expect(twice).toMatchObject({ size: 250, mode: 'isolating', limit: 100, resume: 'draining' });
    expect(paceAfter([filled(1), filled(1)], twice)).toEqual({ largest: 1_000, size: 250, mode: 'draining' });
  });

  it('a batch has between 1 row and its size, whatever happens', () => {
    const event = fc.oneof<fc.Arbitrary<Step>[]>(
      fc.double({ min: 0, max: 1e6, noNaN: true }).map(filled),
      fc.constantFrom(DRAINED, FAILED),
      fc.integer({ min: 1, max: 1_000 }).map(refused),
    );
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5_000 }), fc.array(event), (largest, events) => {
        let pace = firstPace(largest);
        for (const next of events) {
          // A refused batch has at most as many rows as it claimed.
          const isRefused = typeof next === 'object' && next.type === 'refused';
          pace = paceAfter([isRefused ? refused(Math.min(next.rows, limitOf(pace))) : next], pace);
          expect(pace.size).toBeGreaterThanOrEqual(Math.min(50, largest));
          expect(pace.size).toBeLessThanOrEqual(largest);
          expect(limitOf(pace)).toBeGreaterThanOrEqual(1);
          expect(limitOf(pace)).toBeLessThanOrEqual(pace.size);
        }
      }),
    );
  });
});
