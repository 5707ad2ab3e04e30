// Which endpoints are not worth a claim for a moment, because the last claim found nothing at them: their deliveries
// wait for earlier events of their incidents, or other dispatchers hold them. Times are passed in.

export type Pause =
  /** Earlier claims took all that the last poll saw; the next poll may see more. */
  | { readonly kind: 'drained'; readonly untilAt: number }
  /** Nothing of what a poll saw may go out. */
  | { readonly kind: 'backing_off'; readonly untilAt: number; readonly pauseMs: number };

/** The pause doubles with each claim in a row that found nothing. A retry of a waiting delivery is late by as much. */
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 500;
/** Beyond this many pauses all of them are forgotten. */
const MAX_PAUSES = 10_000;

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

export interface ClaimResult {
  asked: readonly string[];
  /** Those of `asked` at which the claim found something. */
  found: ReadonlySet<string>;
  nextPollAt: number;
}

/** The pauses of all endpoints, by their keys. One per dispatcher. */
export class EndpointBackoff {
  #pauses = new Map<string, Pause>();
  /** Endpoints at which a claim found something since the last poll. */
  #served = new Set<string>();

  isPaused(endpoint: string, now: number): boolean {
    return (this.#pauses.get(endpoint)?.untilAt ?? 0) > now;
  }

  recordPoll(): void {
    this.#served = new Set();
  }

  recordClaim({ asked, found, nextPollAt }: ClaimResult, now: number): void {
    if (this.#pauses.size > MAX_PAUSES) this.resumeAll();
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

  resumeAll(): void {
    this.#pauses = new Map();
  }
}
