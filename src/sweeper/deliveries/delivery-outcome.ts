// Turns the outcome of a claim into the rows that are written. Pure but for the jitter.

import {
  type DisabledReason,
  type NextDeliveryState,
  nextDeliveryState,
} from '../../delivery/retry-schedule.ts';
import type { AttemptResult } from '../../delivery/sender.ts';
import type { CancellationReason } from '../../domain/callback.ts';
import type { LastDelivery, NewestDelivery } from '../../store/callbacks/callback-endpoints.ts';
import type { ClaimedDelivery } from '../../store/deliveries/delivery-queue.ts';
import type { DeliveryResult } from '../../store/deliveries/delivery-results.ts';
import type { TimelineRow } from '../../store/incidents/incidents.ts';
import { endpointKeyOf } from './due-queues.ts';

/** The outcome of a claim. `startedAt` and `finishedAt` are of `performance.now()`. */
export type DeliveryOutcome = { claim: ClaimedDelivery } & (
  | { kind: 'sent'; result: AttemptResult; startedAt: number; finishedAt: number }
  /** The endpoint was disabled or removed, or the monitor deleted, after the delivery was written. */
  | { kind: 'canceled'; reason: CancellationReason }
  /** No attempt was made because of an internal fault, such as a missing encryption key. */
  | { kind: 'postponed' }
);

/** An internal fault lasts until somebody reads the log. */
const POSTPONED_MS = 60_000;

export interface DescribedOutcome {
  outcome: DeliveryOutcome;
  /** The database's clock. */
  nowMs: number;
  result: DeliveryResult;
  last?: LastDelivery;
  /** Set after a 410. */
  disable?: DisabledReason;
}

/**
 * What is written for an outcome at `now`, of `performance.now()`. A test delivery is never tried again
 * (docs/contract/callbacks.md).
 */
export function describeOutcome(outcome: DeliveryOutcome, now: number): DescribedOutcome {
  const { claim, kind } = outcome;
  const { projectId, deliveryId, endpoint, claimed } = claim;
  const row = { projectId, deliveryId, endpoint, attempt: claim.attemptCount + 1 };
  const toDatabaseMs = (at: number) => Math.round(claimed.nowMs + at - claimed.performanceMs);
  const nowMs = toDatabaseMs(now);
  if (kind === 'postponed') {
    return { outcome, nowMs, result: { ...row, state: 'unchanged', nextAttemptMs: nowMs + POSTPONED_MS } };
  }
  if (kind === 'canceled') {
    return { outcome, nowMs, result: { ...row, state: 'canceled', endedMs: nowMs } };
  }
  const finishedAtMs = toDatabaseMs(outcome.finishedAt);
  const { statusCode, latencyMs, error } = outcome.result;
  const next = decide(outcome, finishedAtMs);
  const result: DeliveryResult = {
    ...row,
    state: next.state,
    nextAttemptMs: next.state === 'failing' ? next.nextAttemptAtMs : undefined,
    endedMs: next.state === 'failing' ? undefined : finishedAtMs,
    sent: { atMs: toDatabaseMs(outcome.startedAt), statusCode, latencyMs, error },
  };
  const last = { state: next.state, atMs: finishedAtMs, statusCode };
  const disable = next.state === 'exhausted' ? next.disableEndpoint : undefined;
  return { outcome, nowMs, result, last, disable };
}

function decide(outcome: DeliveryOutcome & { kind: 'sent' }, finishedAtMs: number): NextDeliveryState {
  const { claim, result } = outcome;
  const next = nextDeliveryState({
    outcome: result,
    attemptNumber: claim.attemptCount + 1,
    finishedAtMs,
    random: Math.random(),
  });
  return claim.event === 'callback.test' && next.state === 'failing' ? { state: 'exhausted' } : next;
}

/** The entry is written only where the state changes: eight failures in a row make one entry, and the attempts show the rest. */
export function timelineOf({ outcome, result, nowMs }: DescribedOutcome): TimelineRow | undefined {
  const { projectId, deliveryId, incidentId, endpoint, event } = outcome.claim;
  if (incidentId === undefined || result.state === 'unchanged') return undefined;
  const detail =
    outcome.kind === 'canceled'
      ? { reason: outcome.reason }
      : { attempt: result.attempt, statusCode: result.sent?.statusCode, error: result.sent?.error };
  const delivery = { deliveryId, endpointId: endpoint.endpointId, event, state: result.state };
  return { projectId, incidentId, entry: { type: 'delivery', atMs: nowMs, delivery, detail } };
}

/** Each endpoint once, with its newest attempt if there was one. */
export function endpointsOf(described: readonly DescribedOutcome[]): NewestDelivery[] {
  const endpoints = new Map<string, NewestDelivery>();
  for (const { outcome, last } of described) {
    const { endpoint } = outcome.claim;
    const key = endpointKeyOf(endpoint);
    const known = endpoints.get(key);
    if (!known) endpoints.set(key, { ...endpoint, last });
    else if (last && (known.last?.atMs ?? 0) <= last.atMs) known.last = last;
  }
  return [...endpoints.values()];
}
