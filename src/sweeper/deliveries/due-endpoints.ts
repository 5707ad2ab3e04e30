// Which endpoints are worth a claim now: what the last poll of the outbox found, and for how long that serves; and the
// back-off of endpoints at which a claim found nothing. It reads no database: results and times of `performance.now()`
// are passed in.
import type { EndpointRef } from '../../store/callbacks/callback-endpoints.ts';

/** `after`: where the next poll begins, when there was more than one poll finds. */
export type PollState = { readonly after?: EndpointRef } & (
  | { readonly kind: 'stale' }
  /** `isOutdated`: a delivery was added meanwhile, and the poll may have come too early for it. */
  | { readonly kind: 'polling'; readonly startedAt: number; readonly isOutdated: boolean }
  | { readonly kind: 'fresh'; readonly due: readonly EndpointRef[]; readonly untilAt: number }
);

export type PollEvent =
  | { type: 'begun' }
  | { type: 'found'; due: readonly EndpointRef[] }
  /** A delivery was added to the outbox in this process. */
  | { type: 'added' };

/** The pause of an endpoint at which a claim found nothing. */
export type Pause =
  /** Earlier claims took all that the last poll saw; the next poll may see more. */
  | { readonly kind: 'drained'; readonly untilAt: number }
  /** Nothing of what a poll saw may go out: it waits for earlier events, or other dispatchers have it. */
  | { readonly kind: 'backing_off'; readonly untilAt: number; readonly pauseMs: number };

/** Endpoints that one poll finds. */
export const MAX_POLLED = 10_000;
/**
 * A poll costs a probe of the index for each endpoint at which anything waits: what it found serves three times as long
 * as it took.
 */
const SERVES = 3;
/** But no longer than this, on a machine of any pace: what another process adds to the outbox waits for the next poll. */
const SERVES_MS = 250;
/** The pause doubles with each claim in a row that found nothing. A retry of a waiting delivery is late by as much. */
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 500;
/** Beyond this many pauses all of them are forgotten. */
const MAX_PAUSES = 10_000;

/** A poll that fails is not an event: the next run begins another one. */
export function nextPoll(state: PollState, event: PollEvent, now: number): PollState {
  const { after } = state;
  switch (event.type) {
    case 'begun':
      return { kind: 'polling', after, startedAt: now, isOutdated: false };
    case 'found': {
      if (state.kind !== 'polling') return state;
      const { due } = event;
      const servesMs = Math.min((now - state.startedAt) * SERVES, SERVES_MS);
      return {
        kind: 'fresh',
        due,
        after: due.length === MAX_POLLED ? due.at(-1) : undefined,
        untilAt: state.isOutdated ? now : now + servesMs,
      };
    }
    case 'added':
      return state.kind === 'polling' ? { ...state, isOutdated: true } : { kind: 'stale', after };
  }
}

/** The pause after a claim that found nothing. `isServed`: an earlier claim since the last poll found something. */
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

/** One per dispatcher. Endpoints are named by their keys. */
export class DueEndpoints {
  #poll: PollState = { kind: 'stale' };
  #pauses = new Map<string, Pause>();
  /** Endpoints at which a claim found something since the last poll. */
  #served = new Set<string>();

  /** What the last poll found, while that serves. */
  fresh(now: number): readonly EndpointRef[] | undefined {
    return this.#poll.kind === 'fresh' && now < this.#poll.untilAt ? this.#poll.due : undefined;
  }

  /** Returns the endpoint behind which the poll begins; undefined: with the first one. */
  beginPoll(now: number): EndpointRef | undefined {
    this.#poll = nextPoll(this.#poll, { type: 'begun' }, now);
    return this.#poll.after;
  }

  recordPoll(due: readonly EndpointRef[], now: number): void {
    this.#poll = nextPoll(this.#poll, { type: 'found', due }, now);
    this.#served = new Set();
  }

  isPaused(endpoint: string, now: number): boolean {
    return (this.#pauses.get(endpoint)?.untilAt ?? 0) > now;
  }

  /** `found`: the endpoints among `asked` at which a claim found something. */
  recordClaim(asked: readonly string[], found: ReadonlySet<string>, now: number): void {
    if (this.#pauses.size > MAX_PAUSES) this.#pauses = new Map();
    const nextPollAt = this.#poll.kind === 'fresh' ? this.#poll.untilAt : now;
    for (const endpoint of found) {
      this.#pauses.delete(endpoint);
      this.#served.add(endpoint);
    }
    for (const endpoint of asked) {
      if (found.has(endpoint)) continue;
      const isServed = this.#served.has(endpoint);
      this.#pauses.set(endpoint, nextPause(this.#pauses.get(endpoint), { isServed, nextPollAt }, now));
    }
  }

  /** A delivery to the endpoint has ended: the one that waited for it may go out. */
  resume(endpoint: string): void {
    this.#pauses.delete(endpoint);
  }

  /** A delivery was added to the outbox, to whichever endpoint: also to one that pauses. */
  recordAdded(now: number): void {
    this.#pauses = new Map();
    this.#poll = nextPoll(this.#poll, { type: 'added' }, now);
  }
}

export function endpointKeyOf({ projectId, endpointId }: EndpointRef): string {
  return `${projectId} ${endpointId}`;
}
