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
  it('is without an end each minute, 30 s each five seconds, and 1 s in every other run', () => {
    let state = FIRST_LOOKBACK;
    const lookbacks: (number | undefined)[] = [];
    for (let now = 0; now <= 65 * SECOND_MS; now += SECOND_MS) {
      const begun = beginLookback(state, now);
      state = begun.state;
      lookbacks.push(begun.lookback.backMs);
    }
    const expected = lookbacks.map((_, second) =>
      second % 60 === 0 ? undefined : second % 5 === 0 ? 30_000 : 1_000,
    );
    expect(lookbacks).toEqual(expected);
  });

  it('stays the same while something is left in it', () => {
    const { lookback, state } = beginLookback(FIRST_LOOKBACK, 0);
    const again = beginLookback(leaveUnfinished(state, lookback), SECOND_MS);
    expect(again.lookback).toEqual(lookback);
    // The minute counts from its first run.
    expect(beginLookback(again.state, 59 * SECOND_MS).lookback.backMs).toBe(30_000);
    expect(beginLookback(again.state, 60 * SECOND_MS).lookback.backMs).toBeUndefined();
  });

  it('is a short one after a long one that failed', () => {
    const { state } = beginLookback(FIRST_LOOKBACK, 0);
    expect(beginLookback(state, 1).lookback).toEqual({ backMs: 1_000 });
  });

  it('counts from the watermark, and is from the beginning before there is one', () => {
    expect(sinceMsOf(FIRST_LOOKBACK, { backMs: 1_000 })).toBeUndefined();
    const state = advanceWatermark(FIRST_LOOKBACK, span);
    expect(sinceMsOf(state, { backMs: 1_000 })).toBe(39_000);
    expect(sinceMsOf(state, {})).toBeUndefined();
  });

  it('keeps its watermark where no api has run yet: nothing was looked at', () => {
    expect(advanceWatermark(FIRST_LOOKBACK, { nowMs: 50_000, uptoMs: 50_000 })).toEqual(FIRST_LOOKBACK);
  });
});
