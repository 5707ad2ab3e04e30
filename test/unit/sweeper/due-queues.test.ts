import { describe, expect, it } from 'vitest';
import {
  DueQueues,
  FIRST_POLL,
  FULL_EVERY_MS,
  nextPause,
  nextPoll,
  type PollEvent,
  type PollState,
} from '../../../src/sweeper/deliveries/due-queues.ts';

const queue = (endpointId: string, firstMs = 0) => ({
  projectId: 'p',
  endpoint: { projectId: 'p', endpointId },
  firstMs,
});
const QUEUE = queue('cb_1');
const BEGUN: PollEvent = { type: 'begun' };
const ADDED: PollEvent = { type: 'added' };
const FOUND: PollEvent = { type: 'found', due: [QUEUE], cut: [] };
/** A poll that looked at every queue. */
const whole = (...due: ReturnType<typeof queue>[]) => ({ due, cut: [] });

/** The state after events at their times, ms. */
const stateAfter = (...events: [number, PollEvent][]): PollState =>
  events.reduce<PollState>((state, [now, event]) => nextPoll(state, event, now), FIRST_POLL);

/** A claim that filled its places in the queues where it found something. */
const claimOf = (asked: readonly string[], found: readonly string[]) => ({
  asked,
  found: new Set(found),
  left: new Set(found),
});

describe('the result of a poll', () => {
  it('the result of a poll serves three times as long as the poll took', () => {
    expect(stateAfter([1_000, BEGUN], [1_010, FOUND])).toMatchObject({ kind: 'fresh', untilAt: 1_040 });
  });

  it('the result of a slow poll serves no longer than 250 ms', () => {
    expect(stateAfter([0, BEGUN], [4_000, FOUND])).toMatchObject({ kind: 'fresh', untilAt: 4_250 });
  });

  it('the result of a poll no longer serves when a delivery is added', () => {
    expect(stateAfter([0, BEGUN], [10, FOUND], [11, ADDED])).toMatchObject({ kind: 'stale' });
  });

  it('the result of a poll serves only one run when a delivery was added during the poll', () => {
    const state = stateAfter([0, BEGUN], [5, ADDED], [10, FOUND]);
    expect(state).toMatchObject({ kind: 'fresh', due: [QUEUE], untilAt: 10 });
  });

  it('the result of a poll after a failed one serves as long as any, whatever was added before', () => {
    const state = stateAfter([0, BEGUN], [5, ADDED], [20, BEGUN], [30, FOUND]);
    expect(state).toMatchObject({ kind: 'fresh', untilAt: 60 });
  });
});

describe('the next poll', () => {
  const CUT = [queue('cb_8')];
  const PART: PollEvent = { type: 'found', due: [QUEUE], cut: CUT };
  const spanOf = (state: PollState) => (state.kind === 'polling' ? state.span : undefined);

  it('the next full poll goes on where the last one ended in projects with more queues than their part', () => {
    const state = stateAfter([0, BEGUN], [10, PART], [300, BEGUN]);
    expect(spanOf(state)).toEqual({ after: CUT });
    expect(nextPoll(state, FOUND, 310).after).toEqual([]);
  });

  it('a short poll comes between two full ones that do not look at every queue, however cheap they are', () => {
    const short = stateAfter([0, BEGUN], [1, PART], [2, ADDED], [3, BEGUN]);
    expect(spanOf(short)).toEqual({ after: [], withinMs: 3 + 1_000 });
    const full = nextPoll(nextPoll(short, FOUND, 4), BEGUN, 251);
    expect(spanOf(full)).toEqual({ after: CUT });
  });

  it('the full poll after a failed one begins at the same queues', () => {
    const state = stateAfter([0, BEGUN], [10, PART], [300, BEGUN], [FULL_EVERY_MS + 300, BEGUN]);
    expect(spanOf(state)).toEqual({ after: CUT });
  });

  it('the next poll begins with the first queue when all were looked at', () => {
    expect(stateAfter([0, BEGUN], [10, FOUND], [90, BEGUN]).after).toEqual([]);
  });

  it('what is left of earlier polls stays when a full poll has not looked at every queue', () => {
    const due = new DueQueues();
    due.beginPoll(0);
    due.recordPoll({ due: [queue('a'), queue('b'), queue('c')], cut: [queue('c')] }, 10);
    due.recordClaim(claimOf(['p a p', 'p b p'], ['p b p']), 20);
    expect(due.beginPoll(300)).toEqual({ after: [queue('c')] });
    expect(due.recordPoll(whole(queue('d')), 310)).toEqual([queue('b'), queue('c'), queue('d')]);
    expect(due.beginPoll(700)).toEqual({ after: [] });
    expect(due.recordPoll(whole(queue('a')), 710)).toEqual([queue('a')]);
  });
});

describe('full and short polls', () => {
  const spanOf = (state: PollState) => (state.kind === 'polling' ? state.span : undefined);
  const FULL = { after: [] };

  it('every poll is full while a full poll is cheap', () => {
    const state = stateAfter([0, BEGUN], [1, FOUND], [150, BEGUN], [151, FOUND], [300, BEGUN]);
    expect(spanOf(state)).toEqual(FULL);
    // However soon the next one comes.
    expect(spanOf(stateAfter([0, BEGUN], [24, FOUND], [25, ADDED], [26, BEGUN]))).toEqual(FULL);
    expect(spanOf(stateAfter([0, BEGUN], [25, FOUND], [26, ADDED], [27, BEGUN]))).not.toEqual(FULL);
  });

  it('an expensive full poll is followed by short ones, which look back to the poll before and a second further', () => {
    const state = stateAfter([0, BEGUN], [150, FOUND], [400, BEGUN]);
    expect(spanOf(state)).toEqual({ after: [], withinMs: 400 + 1_000 });
    const next = nextPoll(nextPoll(state, FOUND, 410), BEGUN, 560);
    expect(spanOf(next)).toEqual({ after: [], withinMs: 160 + 1_000 });
  });

  it('a full poll takes a tenth of the time at most, but comes every two seconds however expensive it is', () => {
    const hundred: [number, PollEvent][] = [
      [0, BEGUN],
      [100, FOUND],
    ];
    expect(spanOf(stateAfter(...hundred, [1_099, BEGUN]))).not.toEqual(FULL);
    expect(spanOf(stateAfter(...hundred, [1_100, BEGUN]))).toEqual(FULL);
    const slow: [number, PollEvent][] = [
      [0, BEGUN],
      [1_500, FOUND],
    ];
    expect(FULL_EVERY_MS).toBe(2_000);
    expect(spanOf(stateAfter(...slow, [FULL_EVERY_MS - 1, BEGUN]))).not.toEqual(FULL);
    expect(spanOf(stateAfter(...slow, [FULL_EVERY_MS, BEGUN]))).toEqual(FULL);
  });

  it('full polls that fail leave short ones their turn, also before the first one has succeeded', () => {
    const state = stateAfter([0, BEGUN], [1_900, BEGUN]);
    expect(spanOf(state)).toEqual({ after: [], withinMs: 1_900 + 1_000 });
    expect(spanOf(nextPoll(state, BEGUN, FULL_EVERY_MS))).toEqual(FULL);
  });

  it('a short poll adds to what is left of the polls before, in the order of the keys', () => {
    const due = new DueQueues();
    due.beginPoll(0);
    due.recordPoll(whole(queue('b', 10), queue('c', 20), queue('d', 30)), 150);
    due.recordClaim(claimOf(['p b p', 'p c p', 'p d p'], ['p c p', 'p d p']), 160);
    expect(due.beginPoll(390).withinMs).toBeDefined();
    expect(due.recordPoll(whole(queue('a', 400), queue('d', 400)), 400)).toEqual([
      queue('a', 400),
      queue('c', 20),
      queue('d', 30),
    ]);
  });

  it('a full poll replaces what the polls before have found', () => {
    const due = new DueQueues();
    due.beginPoll(0);
    due.recordPoll(whole(queue('a', 10), queue('b', 20)), 150);
    expect(due.beginPoll(FULL_EVERY_MS)).toEqual(FULL);
    expect(due.recordPoll(whole(queue('a', 15)), FULL_EVERY_MS + 10)).toEqual([queue('a', 15)]);
    expect(due.fresh(FULL_EVERY_MS + 11)).toEqual([queue('a', 15)]);
  });
});

describe('the pause of a queue', () => {
  const NEXT_POLL_AT = 40;

  it('a queue pauses for 250 ms after a claim that found nothing, and for 500 ms after each further one', () => {
    const event = { isServed: false, nextPollAt: NEXT_POLL_AT };
    const first = nextPause(undefined, event, 1_000);
    expect(first).toEqual({ kind: 'backing_off', untilAt: 1_250, pauseMs: 250 });
    const second = nextPause(first, event, 1_300);
    expect(second).toEqual({ kind: 'backing_off', untilAt: 1_800, pauseMs: 500 });
    expect(nextPause(second, event, 1_900)).toEqual({ kind: 'backing_off', untilAt: 2_400, pauseMs: 500 });
  });

  it('a queue pauses until the next poll when an earlier claim took all that was due', () => {
    const drained = nextPause(undefined, { isServed: true, nextPollAt: NEXT_POLL_AT }, 20);
    expect(drained).toEqual({ kind: 'drained', untilAt: NEXT_POLL_AT });
    expect(nextPause(drained, { isServed: false, nextPollAt: 90 }, 50)).toMatchObject({ pauseMs: 250 });
  });
});

describe('the queues that are worth a claim', () => {
  /** A poll from 0 to 10 ms has found `a` and `b`: that serves until 40 ms. */
  function polled(): DueQueues {
    const due = new DueQueues();
    due.beginPoll(0);
    due.recordPoll(whole(QUEUE), 10);
    return due;
  }
  const claim = (due: DueQueues, found: readonly string[], now: number) =>
    due.recordClaim(claimOf(['a', 'b'], found), now);
  const pausedAt = (due: DueQueues, now: number) => ['a', 'b'].filter((key) => due.isPaused(key, now));

  it('the queues of the last poll are due while its result serves', () => {
    const due = polled();
    expect(due.fresh(39)).toEqual([QUEUE]);
    expect(due.fresh(40)).toBeUndefined();
  });

  it('a queue is left out for 250 ms when a claim found nothing in it, and no other', () => {
    const due = polled();
    claim(due, ['b'], 20);
    expect(pausedAt(due, 269)).toEqual(['a']);
    expect(pausedAt(due, 270)).toEqual([]);
  });

  it('a queue whose due deliveries were all claimed is left out until the next poll', () => {
    const due = polled();
    claim(due, ['a', 'b'], 20);
    claim(due, ['b'], 30);
    expect(pausedAt(due, 39)).toEqual(['a']);
    expect(pausedAt(due, 40)).toEqual([]);
    due.beginPoll(40);
    due.recordPoll(whole(QUEUE), 50);
    claim(due, ['b'], 60);
    expect(pausedAt(due, 309)).toEqual(['a']);
  });

  it('a queue that had less than a claim asked for is left out until the next poll', () => {
    const due = polled();
    due.recordClaim({ asked: ['a', 'b'], found: new Set(['a', 'b']), left: new Set(['b']) }, 20);
    expect(pausedAt(due, 39)).toEqual(['a']);
    expect(pausedAt(due, 40)).toEqual([]);
  });

  it('a queue has the shortest pause again after a claim that found something', () => {
    const due = polled();
    claim(due, [], 20);
    claim(due, [], 300);
    claim(due, ['a'], 900);
    due.beginPoll(900);
    due.recordPoll(whole(QUEUE), 910);
    claim(due, [], 1_000);
    expect(pausedAt(due, 1_249)).toEqual(['a', 'b']);
    expect(pausedAt(due, 1_250)).toEqual(['b']);
  });

  it('a queue no longer pauses when a delivery to it has ended', () => {
    const due = polled();
    claim(due, [], 20);
    due.resume('a');
    expect(pausedAt(due, 30)).toEqual(['b']);
  });

  it('no endpoint pauses, and the next run polls, when a delivery was added', () => {
    const due = polled();
    claim(due, [], 20);
    due.recordAdded(21);
    expect(pausedAt(due, 22)).toEqual([]);
    expect(due.fresh(22)).toBeUndefined();
  });

  it('all pauses are forgotten when there are more than the bound', () => {
    const due = polled();
    const many = Array.from({ length: 10_001 }, (_, index) => `cb_${index}`);
    due.recordClaim(claimOf(many, []), 20);
    expect(due.isPaused('cb_0', 30)).toBe(true);
    claim(due, [], 30);
    expect(due.isPaused('cb_0', 31)).toBe(false);
    expect(pausedAt(due, 31)).toEqual(['a', 'b']);
  });
});
