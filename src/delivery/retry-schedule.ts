// When the next attempt of a delivery is due, and when there is none. Pure: the caller passes time and randomness.
// It neither stores the state nor disables endpoints: it says what follows from an attempt.

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

const JITTER = 0.1;

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

/** docs/contract/callbacks.md: `Retry-After` is respected up to one hour. */
const MAX_RETRY_AFTER_MS = HOUR_MS;

/** As long as a delivery is tried by the schedule alone: 17 hours. */
export const LIFE_MS = RETRY_WAITS_MS.reduce((sum, waitMs) => sum + waitMs);

/** Of a refusal that counts no attempt: the wait is this part of the delivery's age, within these bounds. */
const AGE_PART = 0.1;
const LEAST_POSTPONED_MS = 10 * SECOND_MS;
const MOST_POSTPONED_MS = HOUR_MS;

/**
 * How long a delivery waits, ms, that was refused for now and not for its own sake: longer with its age, so that many of
 * them get rarer. Undefined for one that is older than a delivery is tried: its refusal is its last attempt.
 */
export function postponementOf({
  ageMs,
  retryAfterMs = 0,
  random,
}: {
  ageMs: number;
  retryAfterMs?: number;
  /** 0 to 1, for the jitter. */
  random: number;
}): number | undefined {
  if (ageMs >= LIFE_MS) return undefined;
  const waitMs = Math.min(Math.max(ageMs * AGE_PART, LEAST_POSTPONED_MS, retryAfterMs), MOST_POSTPONED_MS);
  // Later and not earlier than the relay asks for.
  return Math.round(waitMs * (1 + JITTER * random));
}

/** What the schedule needs to know about an attempt; an `AttemptResult` fits. */
export interface AttemptOutcome {
  delivered: boolean;
  gone: boolean;
  retryAfterMs?: number;
}

export interface FinishedAttempt {
  outcome: AttemptOutcome;
  /** 1 for the first attempt. */
  attemptNumber: number;
  /** End of the attempt, ms, from the same moment on as `nextAttemptAtMs`. */
  finishedAtMs: number;
  /** 0 to 1, for the jitter. */
  random: number;
}

/** `disableEndpoint` is present after a 410: the caller disables the endpoint with this reason. */
export type NextDeliveryState =
  | { state: 'delivered' }
  | { state: 'failing'; nextAttemptAtMs: number }
  | { state: 'exhausted'; disableEndpoint?: DisabledReason };

/** `disabledReason` of an endpoint that answered 410 Gone. */
export type DisabledReason = 'gone';

/**
 * The state of the delivery after an attempt. `Retry-After` can only make the wait longer, to at most one hour after
 * the attempt; it never adds an attempt (docs/contract/callbacks.md).
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

/** The forms of a date: today's and the two obsolete ones, which are to be read too (RFC 9110 5.6.7). The last is in GMT. */
const DATES = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]+day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];

/**
 * Reads the `Retry-After` header of a receiver (RFC 9110 10.2.3): milliseconds to wait from `nowMs` on, 0 to one hour.
 * Undefined where the header is absent or makes no sense.
 */
export function parseRetryAfter(header: string | string[] | undefined, nowMs: number): number | undefined {
  const text = (Array.isArray(header) ? header[0] : header)?.trim();
  if (!text) return undefined;
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, MAX_RETRY_AFTER_MS);
  if (!DATES.some((form) => form.test(text))) return undefined;
  const atMs = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  if (Number.isNaN(atMs)) return undefined;
  return Math.min(Math.max(atMs - nowMs, 0), MAX_RETRY_AFTER_MS);
}
