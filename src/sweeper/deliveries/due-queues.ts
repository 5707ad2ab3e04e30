// Which queues are worth a claim now: what the last polls of the outbox found, and for how long that serves; and the
// back-off of queues in which a claim found nothing. It reads no database: results and times of `performance.now()` are
// passed in.
import type { EndpointRef } from '../../store/callbacks/callback-endpoints.ts';
import {
  type DueQueue,
  type FoundQueues,
  type QueueRef,
  queueKeyOf,
} from '../../store/deliveries/due-queues.ts';

/** What the next poll reads. */
export interface PollSpan {
  /** Where it goes on in projects with more queues than one poll looks at. */
  readonly after: readonly QueueRef[];
  /** Only what became due in this time. Undefined: a full poll. */
  readonly withinMs?: number;
}

export type PollState = {
  /** Where the next full poll goes on. */
  readonly after: readonly QueueRef[];
  /** When a full poll is due. */
  readonly fullAt: number;
  /** When the last poll began that succeeded, or the first of all: a short poll looks back to it. */
  readonly seenAt?: number;
  /** In the order of the keys. */
  readonly due: readonly DueQueue[];
} & (
  | { readonly kind: 'stale' }
  /** `isOutdated`: a delivery was added meanwhile, and the poll may have come too early for it. */
  | {
      readonly kind: 'polling';
      readonly span: PollSpan;
      readonly startedAt: number;
      readonly isOutdated: boolean;
    }
  | { readonly kind: 'fresh'; readonly untilAt: number }
);

export type PollEvent =
  | { type: 'begun' }
  /** `due`: also what is left of earlier polls, where this one has not looked at everything. `cut`: where it ended. */
  | { type: 'found'; due: readonly DueQueue[]; cut: readonly QueueRef[] }
  /** A delivery was added to the outbox in this process. */
  | { type: 'added' };

/** The pause of a queue in which a claim found nothing, or less than it asked for. */
export type Pause =
  /** Earlier claims took all that the last poll saw; the next poll may see more. */
  | { readonly kind: 'drained'; readonly untilAt: number }
  /** Nothing of what a poll saw may go out: it waits for earlier events, or other dispatchers have it. */
  | { readonly kind: 'backing_off'; readonly untilAt: number; readonly pauseMs: number };

/** What a claim did. Queues are named by their keys. */
export interface ClaimedQueues {
  asked: readonly string[];
  /** Those in which it found something. */
  found: ReadonlySet<string>;
  /** Those in which there may be more. */
  left: ReadonlySet<string>;
}

/** Queues that one poll looks at. */
export const MAX_POLLED = 10_000;
/**
 * A poll costs a probe of the index for each queue in which anything waits: what it found serves three times as long
 * as it took.
 */
const SERVES = 3;
/** But no longer than this, on a machine of any pace: what another process adds to the outbox waits for the next poll. */
const SERVES_MS = 250;
/**
 * A full poll reads the index entries of ended deliveries too, as long as an old snapshot elsewhere keeps them, and the
 * row of each: a dear one takes no more than a tenth of the time. The short polls between two full ones see what became
 * due since the poll before, also if it was committed as much as LATE_MS late. Everything else (a lease that has ended, a
 * later commit, a clock that was set back) waits for the next full poll.
 *
 * While full polls are cheap there are no short ones. A short poll walks the older entries of each queue: where very
 * many wait in one it is far dearer than a full poll. But after a full poll that has not looked at everything a short one
 * comes in any case: a delivery that is added need not wait until the full polls have come round.
 */
const FULL_PAUSE = 10;
export const FULL_EVERY_MS = 2_000;
const LATE_MS = 1_000;
/** The pause doubles with each claim in a row that found nothing. A retry of a waiting delivery is late by as much. */
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 500;
/** Beyond this many pauses all of them are forgotten. */
const MAX_PAUSES = 10_000;

export const FIRST_POLL: PollState = { kind: 'stale', after: [], fullAt: Number.NEGATIVE_INFINITY, due: [] };

/** A poll that fails is not an event: the next run begins another one. */
export function nextPoll(state: PollState, event: PollEvent, now: number): PollState {
  const { after, fullAt, seenAt = now, due } = state;
  switch (event.type) {
    case 'begun': {
      const isFull = now >= fullAt;
      return {
        kind: 'polling',
        after,
        // A full poll that fails must not keep the short ones from their turn.
        fullAt: isFull ? now + FULL_EVERY_MS : fullAt,
        seenAt,
        due,
        span: isFull ? { after } : { after: [], withinMs: now - seenAt + LATE_MS },
        startedAt: now,
        isOutdated: false,
      };
    }
    case 'found': {
      if (state.kind !== 'polling') return state;
      const { span, startedAt } = state;
      const tookMs = now - startedAt;
      const isFull = span.withinMs === undefined;
      const isCut = event.cut.length > 0;
      return {
        kind: 'fresh',
        after: isFull ? event.cut : after,
        fullAt: isFull ? Math.min(fullAt, now + fullPause(tookMs, isCut)) : fullAt,
        seenAt: startedAt,
        due: event.due,
        untilAt: state.isOutdated ? now : now + Math.min(tookMs * SERVES, SERVES_MS),
      };
    }
    case 'added':
      if (state.kind === 'polling') return { ...state, isOutdated: true };
      return { kind: 'stale', after, fullAt, seenAt: state.seenAt, due };
  }
}

/** How long after a full poll only short ones come. */
function fullPause(tookMs: number, isCut: boolean): number {
  const pauseMs = tookMs * FULL_PAUSE;
  if (pauseMs >= SERVES_MS) return pauseMs;
  return isCut ? SERVES_MS : 0;
}

/** The pause after a claim that left nothing. `isServed`: a claim since the last poll found something. */
export function nextPause(
  before: Pause | undefined,
  { isServed, nextPollAt }: { isServed: boolean; nextPollAt: number },
  now: number,
): Pause {
  if (isServed) return { kind: 'drained', untilAt: nextPollAt };
  const beforeMs = before?.kind === 'backing_off' ? before.pauseMs : 0;
  const pauseMs = Math.min(Math.max(beforeMs * 2, FIRST_PAUSE_MS), MAX_PAUSE_MS);
  return { kind: 'backing_off', untilAt: now + pauseMs, pauseMs };
}

/** One per dispatcher. Queues are named by their keys. */
export class DueQueues {
  #poll: PollState = FIRST_POLL;
  #pauses = new Map<string, Pause>();
  /** Queues in which a claim found something since the last poll. */
  #served = new Set<string>();
  /** Queues of which a claim left nothing since the last poll, but for what waits for a full one. */
  #empty = new Set<string>();

  /** What the last polls found, while that serves. */
  fresh(now: number): readonly DueQueue[] | undefined {
    return this.#poll.kind === 'fresh' && now < this.#poll.untilAt ? this.#poll.due : undefined;
  }

  beginPoll(now: number): PollSpan {
    const poll = nextPoll(this.#poll, { type: 'begun' }, now);
    this.#poll = poll;
    return poll.kind === 'polling' ? poll.span : { after: [] };
  }

  /** Returns what is due now. */
  recordPoll({ due, cut }: FoundQueues, now: number): readonly DueQueue[] {
    const left = this.#isWhole(cut) ? [] : this.#poll.due.filter((ref) => !this.#empty.has(queueKeyOf(ref)));
    this.#empty = new Set();
    // What is left out is found again when the full polls come round.
    const merged = left.length > MAX_POLLED ? due : merge(due, left);
    this.#poll = nextPoll(this.#poll, { type: 'found', due: merged, cut }, now);
    this.#served = new Set();
    return this.#poll.due;
  }

  /** The poll under way has looked at every queue, and ended there. */
  #isWhole(cut: readonly QueueRef[]): boolean {
    const span = this.#poll.kind === 'polling' ? this.#poll.span : undefined;
    return span?.withinMs === undefined && span?.after.length === 0 && cut.length === 0;
  }

  isPaused(queue: string, now: number): boolean {
    return (this.#pauses.get(queue)?.untilAt ?? 0) > now;
  }

  recordClaim({ asked, found, left }: ClaimedQueues, now: number): void {
    if (this.#pauses.size > MAX_PAUSES) this.#pauses = new Map();
    const nextPollAt = this.#poll.kind === 'fresh' ? this.#poll.untilAt : now;
    for (const queue of [...found, ...left]) {
      this.#pauses.delete(queue);
      this.#served.add(queue);
    }
    for (const queue of asked) {
      if (left.has(queue)) continue;
      this.#empty.add(queue);
      const isServed = this.#served.has(queue);
      this.#pauses.set(queue, nextPause(this.#pauses.get(queue), { isServed, nextPollAt }, now));
    }
  }

  /** A delivery of the queue has ended: the one that waited for it may go out. */
  resume(queue: string): void {
    this.#pauses.delete(queue);
  }

  /** A delivery was added to the outbox, to whichever queue: also to one that pauses. */
  recordAdded(now: number): void {
    this.#pauses = new Map();
    this.#poll = nextPoll(this.#poll, { type: 'added' }, now);
  }
}

export function endpointKeyOf({ projectId, endpointId }: EndpointRef): string {
  return `${projectId} ${endpointId}`;
}

/** In the order of the keys. A queue of both has the earlier moment. */
function merge(found: readonly DueQueue[], left: readonly DueQueue[]): readonly DueQueue[] {
  if (left.length === 0) return found;
  const byKey = new Map(left.map((ref) => [queueKeyOf(ref), ref]));
  for (const ref of found) {
    const key = queueKeyOf(ref);
    const firstMs = Math.min(ref.firstMs, byKey.get(key)?.firstMs ?? ref.firstMs);
    byKey.set(key, { ...ref, firstMs });
  }
  return [...byKey].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, ref]) => ref);
}
