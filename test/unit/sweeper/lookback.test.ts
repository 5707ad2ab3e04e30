import { describe, expect, it } from 'vitest';
import {
  advanceWatermark,
  beginLookback,
  FIRST_LOOKBACK,
  leaveUnfinished,
  sinceMsOf,
} from '../../../src/sweeper/deadlines/sweep-state.ts';

const SECOND_MS = 1_000;
const span = { nowMs: 50_000, horizonMs: 40_000, uptoMs: 40_000 };

describe('the lookback of a run', () => {
  it('the lookback is without a bound each minute, 30 s each five seconds, 1 s each second, and 100 ms in every other run', () => {
    let state = FIRST_LOOKBACK;
    const lookbacks: (number | undefined)[] = [];
    for (let now = 0; now <= 65 * SECOND_MS; now += SECOND_MS / 2) {
      const begun = beginLookback(state, now);
      state = begun.state;
      lookbacks.push(begun.lookback.backMs);
    }
    const expected = lookbacks.map((_, half) =>
      half % 120 === 0 ? undefined : half % 10 === 0 ? 30_000 : half % 2 === 0 ? 1_000 : 100,
    );
    expect(lookbacks).toEqual(expected);
  });

  it('the lookback stays the same while something is left in it', () => {
    const { lookback, state } = beginLookback(FIRST_LOOKBACK, 0);
    const again = beginLookback(leaveUnfinished(state, lookback), SECOND_MS);
    expect(again.lookback).toEqual(lookback);
    // The minute counts from its first run.
    expect(beginLookback(again.state, 59 * SECOND_MS).lookback.backMs).toBe(30_000);
    expect(beginLookback(again.state, 60 * SECOND_MS).lookback.backMs).toBeUndefined();
  });

  it('a short lookback follows a long one that failed', () => {
    const { state } = beginLookback(FIRST_LOOKBACK, 0);
    expect(beginLookback(state, 1).lookback).toEqual({ backMs: 100 });
  });

  it('the lookback counts from the watermark, and is from the beginning where there is none', () => {
    expect(sinceMsOf(FIRST_LOOKBACK, { backMs: 1_000 })).toBeUndefined();
    const state = advanceWatermark(FIRST_LOOKBACK, span);
    expect(sinceMsOf(state, { backMs: 1_000 })).toBe(39_000);
    expect(sinceMsOf(state, {})).toBeUndefined();
  });

  it('the watermark does not move before the first api has run, because nothing was searched', () => {
    expect(advanceWatermark(FIRST_LOOKBACK, { nowMs: 50_000, uptoMs: 50_000 })).toEqual(FIRST_LOOKBACK);
  });
});
