// Turns the outcome of a claim into the rows that are written. Pure but for the jitter.

import {
  type DisabledReason,
  type NextDeliveryState,
  nextDeliveryState,
} from '../../delivery/retry-schedule.ts';
import type { AttemptResult } from '../../delivery/sender.ts';
import type { CancellationReason } from '../../domain/callback.ts';
import type { EndpointRef, LastDelivery } from '../../store/callbacks/callback-endpoints.ts';
import type { ClaimedDelivery } from '../../store/deliveries/delivery-queue.ts';
import type { DeliveryResult, WrittenResult } from '../../store/deliveries/delivery-results.ts';
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

/** This moment on both clocks: the database's, and `performance.now()`. */
export interface Clocks {
  nowMs: number;
  performanceMs: number;
}

export interface DescribedOutcome {
  outcome: DeliveryOutcome;
  result: DeliveryResult;
  last?: LastDelivery;
  /** Set after a 410. */
  disable?: DisabledReason;
}

/** What is written for an outcome. A test delivery is never tried again (docs/contract/callbacks.md). */
export function describeOutcome(outcome: DeliveryOutcome, clocks: Clocks): DescribedOutcome {
  const { claim, kind } = outcome;
  const { projectId, deliveryId } = claim;
  const row = { projectId, deliveryId, attempt: claim.attemptCount + 1 };
  if (kind === 'postponed') {
    const nextAttemptMs = clocks.nowMs + POSTPONED_MS;
    return { outcome, result: { ...row, state: 'unchanged', nextAttemptMs } };
  }
  if (kind === 'canceled') return { outcome, result: { ...row, state: 'canceled', endedMs: clocks.nowMs } };

  const toDatabaseMs = (at: number) => Math.round(clocks.nowMs - (clocks.performanceMs - at));
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
  return { outcome, result, last, disable: next.state === 'exhausted' ? next.disableEndpoint : undefined };
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

/** An entry only where the state changed: eight failures in a row make one entry, and the attempts show the rest. */
export function timelineOf(
  { outcome, result }: DescribedOutcome,
  written: WrittenResult,
  nowMs: number,
): TimelineRow | undefined {
  const { projectId, deliveryId, incidentId, endpoint, event } = outcome.claim;
  if (incidentId === undefined || written.before === written.state) return undefined;
  const detail =
    outcome.kind === 'canceled'
      ? { reason: outcome.reason }
      : { attempt: result.attempt, statusCode: result.sent?.statusCode, error: result.sent?.error };
  const delivery = { deliveryId, endpointId: endpoint.endpointId, event, state: written.state };
  return { projectId, incidentId, entry: { type: 'delivery', atMs: nowMs, delivery, detail } };
}

/** The newest result of each endpoint. */
export function newestOf(described: readonly DescribedOutcome[]): (EndpointRef & { last: LastDelivery })[] {
  const newest = new Map<string, EndpointRef & { last: LastDelivery }>();
  for (const { outcome, last } of described) {
    if (!last) continue;
    const { endpoint } = outcome.claim;
    const key = endpointKeyOf(endpoint);
    const known = newest.get(key);
    if (!known || known.last.atMs <= last.atMs) newest.set(key, { ...endpoint, last });
  }
  return [...newest.values()];
}
