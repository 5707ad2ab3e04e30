import { describe, expect, it } from 'vitest';
import {
  freshDue,
  MAX_POLLED,
  nextPoll,
  type PollEvent,
  type PollState,
} from '../../../src/sweeper/deliveries/outbox-poll.ts';

const ENDPOINT = { projectId: 'p', endpointId: 'cb_1' };
const BEGUN: PollEvent = { type: 'begun' };
const ADDED: PollEvent = { type: 'added' };
const FOUND: PollEvent = { type: 'found', due: [ENDPOINT] };

/** The state after events at their times, ms. */
const stateAfter = (...events: [number, PollEvent][]): PollState =>
  events.reduce<PollState>((state, [now, event]) => nextPoll(state, event, now), { kind: 'stale' });

describe('the result of a poll', () => {
  it('serves three times as long as the poll took', () => {
    const state = stateAfter([1_000, BEGUN], [1_010, FOUND]);
    expect(freshDue(state, 1_039)).toEqual([ENDPOINT]);
    expect(freshDue(state, 1_040)).toBeUndefined();
  });

  it('serves no longer than 250 ms after a slow poll', () => {
    const state = stateAfter([0, BEGUN], [4_000, FOUND]);
    expect(freshDue(state, 4_249)).toEqual([ENDPOINT]);
    expect(freshDue(state, 4_250)).toBeUndefined();
  });

  it('no longer serves when a delivery is added', () => {
    expect(freshDue(stateAfter([0, BEGUN], [10, FOUND], [11, ADDED]), 12)).toBeUndefined();
  });

  it('serves one run alone when a delivery was added during the poll', () => {
    const state = stateAfter([0, BEGUN], [5, ADDED], [10, FOUND]);
    expect(state).toMatchObject({ kind: 'fresh', due: [ENDPOINT] });
    expect(freshDue(state, 10)).toBeUndefined();
  });

  it('is there again after a poll that failed, whatever was added before', () => {
    const state = stateAfter([0, BEGUN], [5, ADDED], [20, BEGUN], [30, FOUND]);
    expect(freshDue(state, 59)).toEqual([ENDPOINT]);
  });
});

describe('the next poll', () => {
  const full = Array.from({ length: MAX_POLLED }, (_, index) => ({
    projectId: 'p',
    endpointId: `cb_${index}`,
  }));

  it('begins behind the last endpoint when there was more than one poll finds', () => {
    const state = stateAfter([0, BEGUN], [10, { type: 'found', due: full }], [11, ADDED], [12, BEGUN]);
    expect(state).toMatchObject({ kind: 'polling', after: full.at(-1) });
    expect(nextPoll(state, FOUND, 20).after).toBeUndefined();
  });

  it('begins at the same endpoint again after a poll that failed', () => {
    const state = stateAfter([0, BEGUN], [10, { type: 'found', due: full }], [90, BEGUN], [100, BEGUN]);
    expect(state.after).toEqual(full.at(-1));
  });

  it('begins with the first endpoint when all were found', () => {
    expect(stateAfter([0, BEGUN], [10, FOUND], [90, BEGUN]).after).toBeUndefined();
  });
});
