import { describe, expect, it } from 'vitest';
import { EndpointBackoff, nextPause } from '../../../src/sweeper/deliveries/endpoint-backoff.ts';

const NEXT_POLL_AT = 40;

/** A claim at `now` that asks `a` and `b`. */
function claim(backoff: EndpointBackoff, found: readonly string[], now: number): void {
  backoff.recordClaim({ asked: ['a', 'b'], found: new Set(found), nextPollAt: NEXT_POLL_AT }, now);
}

describe('the pause of an endpoint', () => {
  it('is 250 ms after a claim that found nothing, and 500 ms after each further one', () => {
    const event = { isServed: false, nextPollAt: NEXT_POLL_AT };
    const first = nextPause(undefined, event, 1_000);
    expect(first).toEqual({ kind: 'backing_off', untilAt: 1_250, pauseMs: 250 });
    const second = nextPause(first, event, 1_300);
    expect(second).toEqual({ kind: 'backing_off', untilAt: 1_800, pauseMs: 500 });
    expect(nextPause(second, event, 1_900)).toEqual({ kind: 'backing_off', untilAt: 2_400, pauseMs: 500 });
  });

  it('lasts until the next poll when an earlier claim took all that was due', () => {
    const drained = nextPause(undefined, { isServed: true, nextPollAt: NEXT_POLL_AT }, 20);
    expect(drained).toEqual({ kind: 'drained', untilAt: NEXT_POLL_AT });
    expect(nextPause(drained, { isServed: false, nextPollAt: 90 }, 50)).toMatchObject({ pauseMs: 250 });
  });
});

describe('the back-off of endpoints', () => {
  it('leaves an endpoint alone at which a claim found nothing, and no other', () => {
    const backoff = new EndpointBackoff();
    claim(backoff, ['b'], 0);
    expect(backoff.isPaused('a', 249)).toBe(true);
    expect(backoff.isPaused('a', 250)).toBe(false);
    expect(backoff.isPaused('b', 0)).toBe(false);
  });

  it('knows until the next poll which endpoints had something', () => {
    const backoff = new EndpointBackoff();
    claim(backoff, ['a', 'b'], 0);
    claim(backoff, ['b'], 10);
    expect(backoff.isPaused('a', NEXT_POLL_AT - 1)).toBe(true);
    expect(backoff.isPaused('a', NEXT_POLL_AT)).toBe(false);
    backoff.recordPoll();
    claim(backoff, ['b'], NEXT_POLL_AT);
    expect(backoff.isPaused('a', NEXT_POLL_AT + 249)).toBe(true);
  });

  it('begins with the shortest pause again after a claim that found something', () => {
    const backoff = new EndpointBackoff();
    claim(backoff, [], 0);
    claim(backoff, [], 300);
    claim(backoff, ['a'], 900);
    backoff.recordPoll();
    claim(backoff, [], 1_000);
    expect(backoff.isPaused('a', 1_250)).toBe(false);
    expect(backoff.isPaused('b', 1_499)).toBe(true);
  });

  it('ends for one endpoint when a delivery to it has ended, and for all when a delivery was added', () => {
    const backoff = new EndpointBackoff();
    claim(backoff, [], 0);
    backoff.resume('a');
    expect([backoff.isPaused('a', 1), backoff.isPaused('b', 1)]).toEqual([false, true]);
    backoff.resumeAll();
    expect(backoff.isPaused('b', 1)).toBe(false);
  });

  it('remembers a bounded number of endpoints', () => {
    const backoff = new EndpointBackoff();
    const asked = Array.from({ length: 10_001 }, (_, index) => `cb_${index}`);
    backoff.recordClaim({ asked, found: new Set(), nextPollAt: 0 }, 0);
    expect(backoff.isPaused('cb_0', 1)).toBe(true);
    claim(backoff, [], 0);
    expect([backoff.isPaused('cb_0', 1), backoff.isPaused('a', 1)]).toEqual([false, true]);
  });
});
