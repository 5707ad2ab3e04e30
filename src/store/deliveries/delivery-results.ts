// Writes the outcome of attempts, many at once: deliveries and attempt rows. Lock order: the endpoints' rows
// (lockFreeEndpoints), then deliveries, each in key order, as for every writer that ends deliveries.
import type { DeliveryState } from '../../domain/callback.ts';
import type { EndpointRef } from '../callbacks/callback-endpoints.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { fromMillis, NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { ATTEMPT, DELIVERY } from './deliveries.ts';

/** Locks the endpoints and returns the database's clock, read after all locks were acquired, ms. */
export async function lockEndpoints(tx: Queryable, refs: readonly EndpointRef[]): Promise<number> {
  const { rows } = await tx.query<{ now_ms: number }>({
    name: 'lock-endpoints',
    text: `with locked as materialized (
        select e.endpoint_id from callback_endpoints e
        where (e.project_id, e.endpoint_id) in (select * from unnest($1::uuid[], $2::text[]))
        order by e.project_id, e.endpoint_id
        for update)
      select ${NOW_MS} as now_ms
      from (select count(*) from locked) as had`,
    values: [refs.map((ref) => ref.projectId), refs.map((ref) => ref.endpointId)],
  });
  const row = rows[0];
  if (!row) throw new Error('The database answered without a time.');
  return row.now_ms;
}

/**
 * Locks those of the endpoints that nobody else has locked, and returns the others as `busy`: one that is locked holds up
 * no other.
 */
export async function lockFreeEndpoints(
  tx: Queryable,
  refs: readonly EndpointRef[],
): Promise<{ nowMs: number; busy: EndpointRef[] }> {
  const { rows } = await tx.query<{ now_ms: number; project_id: string | null; endpoint_id: string }>({
    name: 'lock-free-endpoints',
    text: `with asked as materialized (
        select e.project_id, e.endpoint_id from callback_endpoints e
        where (e.project_id, e.endpoint_id) in (select * from unnest($1::uuid[], $2::text[]))),
      locked as materialized (
        select e.project_id, e.endpoint_id from callback_endpoints e
        where (e.project_id, e.endpoint_id) in (select * from unnest($1::uuid[], $2::text[]))
        order by e.project_id, e.endpoint_id
        for update skip locked)
      select ${NOW_MS} as now_ms, b.project_id, b.endpoint_id
      from (select count(*) from locked) as had
      left join (select * from asked except select * from locked) as b on true`,
    values: [refs.map((ref) => ref.projectId), refs.map((ref) => ref.endpointId)],
  });
  const row = rows[0];
  if (!row) throw new Error('The database answered without a time.');
  const busy = rows.flatMap(({ project_id: projectId, endpoint_id: endpointId }) =>
    projectId ? { projectId, endpointId } : [],
  );
  return { nowMs: row.now_ms, busy };
}

/** The outcome of one attempt, or of a claim without one. */
export interface DeliveryResult {
  projectId: string;
  deliveryId: string;
  /** 1 for the first attempt. */
  attempt: number;
  /** `unchanged`: no attempt was possible, and the receiver is not the cause. */
  state: Exclude<DeliveryState, 'pending'> | 'unchanged';
  nextAttemptMs?: number;
  /** Set when an attempt was made. */
  sent?: { atMs: number; statusCode?: number; latencyMs: number; error?: string };
  endedMs?: number;
}

const RESULT: Columns<DeliveryResult> = {
  projectId: DELIVERY.projectId,
  deliveryId: DELIVERY.deliveryId,
  attempt: ATTEMPT.attempt,
  state: column.plain('state', 'text'),
  nextAttemptMs: DELIVERY.nextAttemptMs,
  sent: column.optional({
    atMs: column.plain('sent_at', 'bigint'),
    statusCode: ATTEMPT.statusCode,
    latencyMs: ATTEMPT.latencyMs,
    error: ATTEMPT.error,
  }),
  endedMs: column.moment('ended_at'),
};

export interface WrittenResult {
  projectId: string;
  deliveryId: string;
  before: DeliveryState;
  state: DeliveryState;
}

const WRITTEN: Columns<WrittenResult> = {
  projectId: DELIVERY.projectId,
  deliveryId: DELIVERY.deliveryId,
  before: column.computed('before', 'm.before'),
  state: DELIVERY.state,
};
const toWrittenResult = rowReader(WRITTEN);

// A delivery that was canceled meanwhile stays canceled; its attempt is recorded. A delivery whose lease another
// dispatcher has taken belongs to that dispatcher: this result is not written. Each row is looked up by its key, in key
// order: a join would read every waiting delivery.
const WRITE = statement(
  'write-delivery-results',
  (bind: Bind<{ owner: string; results: readonly DeliveryResult[] }>) => `with result as materialized (
    select * from ${sql.recordset(RESULT, bind, ({ results }) => results)}),
  mine as materialized (
    select r.*, d.before from (select * from result order by project_id, delivery_id) r
    cross join lateral (
      select d.state as before from deliveries d
      where d.project_id = r.project_id and d.delivery_id = r.delivery_id and d.attempt_count = r.attempt - 1
        and (d.lease_owner = ${bind(({ owner }) => owner)} and d.state in ('pending', 'failing') or d.state = 'canceled')
      for update) d),
  written as (
    update deliveries d set
      attempt_count = case when m.sent_at is null then d.attempt_count else m.attempt end,
      state = case when m.state = 'unchanged' or m.before = 'canceled' then d.state else m.state end,
      next_attempt_at = case when m.before = 'canceled' then null else ${fromMillis('m.next_attempt_at')} end,
      ended_at = coalesce(d.ended_at, ${fromMillis('m.ended_at')}),
      delivered_at = case when m.state = 'delivered' and m.before <> 'canceled' then ${fromMillis('m.ended_at')} end,
      lease_owner = null, lease_until = null
    from mine m where d.project_id = m.project_id and d.delivery_id = m.delivery_id
    returning ${sql.select(WRITTEN, 'd')}),
  attempts as (
    insert into delivery_attempts (project_id, delivery_id, ${sql.names(ATTEMPT)})
    select project_id, delivery_id, attempt, ${fromMillis('sent_at')}, status_code, latency_ms, error
    from mine where sent_at is not null)
  select * from written`,
);

/** Writes the results of claims that `owner` still holds, and returns those. */
export async function writeDeliveryResults(
  tx: Queryable,
  owner: string,
  results: readonly DeliveryResult[],
): Promise<WrittenResult[]> {
  const { rows } = await tx.query(WRITE({ owner, results }));
  return rows.map(toWrittenResult);
}
