// The outcome of an attempt, as it is handed to the store, and what became of it.
import type { DeliveryState } from '../../domain/callback.ts';
import type { EndpointRef, NewestDelivery } from '../callbacks/callback-endpoints.ts';
import { ENTRY_FACTS, NEW_ENTRY, type NewEntry } from '../incidents/incidents.ts';
import { type Columns, column, rowReader } from '../postgres/columns.ts';
import { fromMillis } from '../postgres/moments.ts';
import { ATTEMPT, DELIVERY } from './deliveries.ts';

/**
 * The outcome of one attempt, or of a claim without one. Times are ms from the moment at which they are written: before
 * it they are negative. So neither a step of a clock nor a slow answer of the database makes them wrong.
 */
export interface DeliveryResult {
  projectId: string;
  deliveryId: string;
  endpoint: EndpointRef;
  /** 1 for the first attempt. */
  attempt: number;
  /** `unchanged`: no attempt was possible, and the receiver is not the cause. */
  state: Exclude<DeliveryState, 'pending'> | 'unchanged';
  nextAttemptInMs?: number;
  /** Set when an attempt was made. */
  sent?: { startedInMs: number; endedInMs: number; statusCode?: number; latencyMs: number; error?: string };
  /** Of the incident's timeline, at the moment of the write: written where the state changes. */
  entry?: ResultEntry;
}

export interface ResultEntry extends Pick<NewEntry, 'incidentId' | 'entryId'> {
  entry: Omit<NewEntry['entry'], 'atMs'>;
}

export const RESULT: Columns<DeliveryResult> = {
  projectId: DELIVERY.projectId,
  deliveryId: DELIVERY.deliveryId,
  endpoint: { projectId: DELIVERY.endpointProjectId, endpointId: DELIVERY.endpointId },
  attempt: ATTEMPT.attempt,
  state: column.plain('state', 'text'),
  nextAttemptInMs: column.plain('next_attempt_in', 'bigint'),
  sent: column.optional({
    startedInMs: column.plain('started_in', 'bigint'),
    endedInMs: column.plain('ended_in', 'bigint'),
    statusCode: ATTEMPT.statusCode,
    latencyMs: ATTEMPT.latencyMs,
    error: ATTEMPT.error,
  }),
  entry: column.optional<ResultEntry>({
    incidentId: NEW_ENTRY.incidentId,
    entryId: NEW_ENTRY.entryId,
    entry: ENTRY_FACTS,
  }),
};

export interface DeliveryResults {
  /** Of the leases. */
  owner: string;
  results: readonly DeliveryResult[];
}

export interface WrittenResult {
  projectId: string;
  deliveryId: string;
  state: DeliveryState;
  /** When the delivery ended, ms of the database's clock. */
  endedMs?: number;
}

export interface WrittenResults {
  /** Of claims that the owner still held. */
  written: WrittenResult[];
  /** Somebody else had their rows locked: nothing is written of what went there. One that is locked holds up no other. */
  busy: EndpointRef[];
  /** The database's clock, ms. */
  nowMs: number;
  /** What is still to be written into the endpoints, for people to see: on Citus alone, where other locks hold it up. */
  newest?: readonly NewestDelivery[];
}

export const WRITTEN: Columns<WrittenResult> = {
  projectId: DELIVERY.projectId,
  deliveryId: DELIVERY.deliveryId,
  state: DELIVERY.state,
  endedMs: column.moment('ended_at'),
};
export const toWrittenResult = rowReader(WRITTEN);

/** SQL: what the result `m`, with the columns `before` and `now_ms`, writes into its delivery `d`. */
export const assignResult = (
  m: string,
) => `attempt_count = case when ${m}.started_in is null then d.attempt_count else ${m}.attempt end,
      state = case when ${m}.state = 'unchanged' or ${m}.before = 'canceled' then d.state else ${m}.state end,
      next_attempt_at = case when ${m}.before <> 'canceled' then ${fromMillis(`(${m}.now_ms + ${m}.next_attempt_in)`)} end,
      ended_at = coalesce(d.ended_at, case when ${m}.state in ('delivered', 'exhausted', 'canceled')
        then ${fromMillis(`(${m}.now_ms + coalesce(${m}.ended_in, 0))`)} end),
      delivered_at = case when ${m}.state = 'delivered' and ${m}.before <> 'canceled'
        then ${fromMillis(`(${m}.now_ms + ${m}.ended_in)`)} end,
      lease_owner = null, lease_until = null,
      first_at = coalesce(d.first_at, ${fromMillis(`(${m}.now_ms + ${m}.started_in)`)}),
      first_status_code = case when ${m}.attempt = 1 then ${m}.status_code else d.first_status_code end,
      first_latency_ms = case when ${m}.attempt = 1 then ${m}.latency_ms else d.first_latency_ms end,
      first_error = case when ${m}.attempt = 1 then ${m}.error else d.first_error end`;
