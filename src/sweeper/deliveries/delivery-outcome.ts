// Turns the outcome of a claim into the rows that are written. Pure but for the jitter.

import {
  type DisabledReason,
  type NextDeliveryState,
  nextDeliveryState,
  postponementOf,
} from '../../delivery/retry-schedule.ts';
import type { AttemptResult } from '../../delivery/sender.ts';
import type { CancellationReason } from '../../domain/callback.ts';
import { type ClaimedDelivery, LEASE_MS } from '../../store/deliveries/delivery-queue.ts';
import type { DeliveryResult, ResultEntry } from '../../store/deliveries/delivery-result.ts';

/** The outcome of a claim. `startedAt` and `finishedAt` are of `performance.now()`. */
export type DeliveryOutcome = { claim: ClaimedDelivery } & (
  | { kind: 'sent'; result: AttemptResult; startedAt: number; finishedAt: number }
  /** The endpoint was disabled or removed, or the monitor deleted, after the delivery was written. */
  | { kind: 'canceled'; reason: CancellationReason }
  /** No attempt counts: an internal fault, such as a missing encryption key, or a relay that takes no more for now. */
  | { kind: 'postponed'; by: 'fault' | 'relay'; waitMs: number }
);

/** An internal fault lasts until somebody reads the log. */
export const FAULT_MS = 60_000;

export interface DescribedOutcome {
  outcome: DeliveryOutcome;
  result: DeliveryResult;
  /** Set after a 410. */
  disable?: DisabledReason;
}

/**
 * What is written for an outcome at `now`, of `performance.now()`. A test delivery is never tried again
 * (docs/contract/callbacks.md).
 */
export function describeOutcome(outcome: DeliveryOutcome, now: number): DescribedOutcome {
  const { claim, kind } = outcome;
  const { projectId, deliveryId, endpoint } = claim;
  const row = { projectId, deliveryId, endpoint, attempt: claim.attemptCount + 1 };
  if (kind === 'postponed') {
    return { outcome, result: { ...row, state: 'unchanged', nextAttemptInMs: outcome.waitMs } };
  }
  if (kind === 'canceled') return { outcome, result: { ...row, state: 'canceled' } };
  const endedInMs = Math.round(outcome.finishedAt - now);
  const startedInMs = Math.round(outcome.startedAt - now);
  const { statusCode, latencyMs, error } = outcome.result;
  const next = decide(outcome, endedInMs);
  const result: DeliveryResult = {
    ...row,
    state: next.state,
    nextAttemptInMs: next.state === 'failing' ? next.nextAttemptAtMs : undefined,
    sent: { startedInMs, endedInMs, statusCode, latencyMs, error },
  };
  return { outcome, result, disable: next.state === 'exhausted' ? next.disableEndpoint : undefined };
}

/**
 * The outcome of an attempt that ended now. The age is by the database's clock, which says when the lease ends. A test has
 * one attempt, whatever refuses it.
 */
export function outcomeOf(
  claim: ClaimedDelivery,
  result: AttemptResult,
  { startedAt, finishedAt }: { startedAt: number; finishedAt: number },
): DeliveryOutcome {
  if (result.refusedForNow && claim.event !== 'callback.test') {
    const ageMs = claim.leaseUntilMs - LEASE_MS - claim.createdMs;
    const waitMs = postponementOf({ ageMs, retryAfterMs: result.retryAfterMs, random: Math.random() });
    if (waitMs !== undefined) return { claim, kind: 'postponed', by: 'relay', waitMs };
  }
  return { claim, kind: 'sent', result, startedAt, finishedAt };
}

function decide(outcome: DeliveryOutcome & { kind: 'sent' }, finishedAtMs: number): NextDeliveryState {
  const { claim, result } = outcome;
  const next = nextDeliveryState({
    outcome: result,
    attemptNumber: claim.attemptCount + 1,
    finishedAtMs,
    random: Math.random(),
  });
  // A refusal for now that is no longer postponed comes at the end of the time in which a delivery is tried.
  const isLast = claim.event === 'callback.test' || result.refusedForNow;
  return isLast && next.state === 'failing' ? { state: 'exhausted' } : next;
}

/** The entry is written only where the state changes: eight failures in a row make one entry, and the attempts show the rest. */
export function timelineOf({ outcome, result }: DescribedOutcome): Omit<ResultEntry, 'entryId'> | undefined {
  const { deliveryId, incidentId, endpoint, event } = outcome.claim;
  if (incidentId === undefined || result.state === 'unchanged') return undefined;
  const detail =
    outcome.kind === 'canceled'
      ? { reason: outcome.reason }
      : { attempt: result.attempt, statusCode: result.sent?.statusCode, error: result.sent?.error };
  const delivery = { deliveryId, endpointId: endpoint.endpointId, event, state: result.state };
  return { incidentId, entry: { type: 'delivery', delivery, detail } };
}
