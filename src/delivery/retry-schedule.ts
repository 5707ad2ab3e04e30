// When the next attempt of a delivery is due, and when there is none. Pure: time and randomness come in.
// It neither stores the state nor disables endpoints: it says what follows from an attempt.
import { MAX_RETRY_AFTER_MS } from './webhook/retry-after.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Waits before attempts 1, 2, 3 …, each counted from the end of the attempt before (docs/contract/callbacks.md). */
export const RETRY_WAITS_MS: readonly number[] = [
  0,
  5 * SECOND_MS,
  30 * SECOND_MS,
  2 * MINUTE_MS,
  10 * MINUTE_MS,
  HOUR_MS,
  4 * HOUR_MS,
  12 * HOUR_MS,
];

const JITTER = 0.1;

/** What the schedule needs to know of an attempt; an `AttemptResult` fits. */
export interface AttemptOutcome {
  delivered: boolean;
  gone: boolean;
  retryAfterMs?: number;
}

export interface FinishedAttempt {
  outcome: AttemptOutcome;
  /** 1 for the first attempt. */
  attemptNumber: number;
  /** End of the attempt, milliseconds since 1970, on the clock that will be compared with `nextAttemptAtMs`. */
  finishedAtMs: number;
  /** 0 to 1, for the jitter. */
  random: number;
}

/** `disableEndpoint` is there after a 410: the endpoint goes to `disabled` with this reason. */
export type NextDeliveryState =
  | { state: 'delivered' }
  | { state: 'failing'; nextAttemptAtMs: number }
  | { state: 'exhausted'; disableEndpoint?: DisabledReason };

/** `disabledReason` of an endpoint that answered 410 Gone. */
export type DisabledReason = 'gone';

/**
 * What becomes of the delivery after an attempt. `Retry-After` can only make the wait longer, by at most one
 * hour after the attempt; it never adds an attempt (docs/contract/callbacks.md).
 */
export function nextDeliveryState(attempt: FinishedAttempt): NextDeliveryState {
  const { outcome, attemptNumber, finishedAtMs, random } = attempt;
  if (outcome.delivered) return { state: 'delivered' };
  if (outcome.gone) return { state: 'exhausted', disableEndpoint: 'gone' };
  const waitMs = RETRY_WAITS_MS[attemptNumber];
  if (waitMs === undefined) return { state: 'exhausted' };
  const jitteredMs = Math.round(waitMs * (1 - JITTER + 2 * JITTER * random));
  const askedMs = Math.min(outcome.retryAfterMs ?? 0, MAX_RETRY_AFTER_MS);
  return { state: 'failing', nextAttemptAtMs: finishedAtMs + Math.max(jitteredMs, askedMs) };
}
