// What came of attempts: delivery, attempt row and the endpoint's last delivery, for many at once. Lock order: the
// endpoints' rows (lockEndpoints), then deliveries, each in key order, as everybody who ends deliveries does.
import type { DeliveryState } from '../../domain/callback.ts';
import type { EndpointRef, LastDelivery } from '../callbacks/callback-endpoints.ts';
import type { Queryable } from '../postgres/pool.ts';

/** Locks the endpoints, and reads the database's clock after the locks were had. ms. */
export async function lockEndpoints(tx: Queryable, refs: readonly EndpointRef[]): Promise<number> {
  const { rows } = await tx.query<{ now_ms: number }>({
    name: 'lock-endpoints',
    text: `with locked as materialized (
        select e.endpoint_id from callback_endpoints e
        where (e.project_id, e.endpoint_id) in (select * from unnest($1::uuid[], $2::text[]))
        order by e.project_id, e.endpoint_id
        for update)
      select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms
      from (select count(*) from locked) as had`,
    values: [refs.map((ref) => ref.projectId), refs.map((ref) => ref.endpointId)],
  });
  const row = rows[0];
  if (!row) throw new Error('The database told no time.');
  return row.now_ms;
}

/** The outcome of one attempt, or of a claim that led to none. Times are ms of the database's clock. */
export interface DeliveryResult {
  projectId: string;
  deliveryId: string;
  /** 1 for the first attempt. */
  attempt: number;
  /** `unchanged`: no attempt could be made through no fault of the receiver. */
  state: Exclude<DeliveryState, 'pending'> | 'unchanged';
  nextAttemptMs?: number;
  /** Set where an attempt was made. */
  sent?: { atMs: number; statusCode?: number; latencyMs: number; error?: string };
  endedMs?: number;
}

export interface WrittenResult {
  projectId: string;
  deliveryId: string;
  before: DeliveryState;
  state: DeliveryState;
}

// A delivery that was canceled meanwhile stays so, and has its attempt on record: it was made. One whose lease another
// dispatcher has taken over is that one's: ours is not written. Looked up one by one, in key order: a join would read
// every delivery that waits.
const WRITE_RESULTS = `with result as materialized (
    select * from jsonb_to_recordset($1::jsonb) as r (project_id uuid, delivery_id text, attempt smallint, state text,
      next_attempt_at bigint, sent_at bigint, status_code smallint, latency_ms integer, error text, ended_at bigint)),
  mine as materialized (
    select r.*, d.before from (select * from result order by project_id, delivery_id) r
    cross join lateral (
      select d.state as before from deliveries d
      where d.project_id = r.project_id and d.delivery_id = r.delivery_id and d.attempt_count = r.attempt - 1
        and (d.lease_owner = $2 and d.state in ('pending', 'failing') or d.state = 'canceled')
      for update) d),
  written as (
    update deliveries d set
      attempt_count = case when m.sent_at is null then d.attempt_count else m.attempt end,
      state = case when m.state = 'unchanged' or m.before = 'canceled' then d.state else m.state end,
      next_attempt_at = case when m.before = 'canceled' then null else to_timestamp(m.next_attempt_at / 1000.0) end,
      ended_at = coalesce(d.ended_at, to_timestamp(m.ended_at / 1000.0)),
      delivered_at = case when m.state = 'delivered' and m.before <> 'canceled' then to_timestamp(m.ended_at / 1000.0) end,
      lease_owner = null, lease_until = null
    from mine m where d.project_id = m.project_id and d.delivery_id = m.delivery_id
    returning d.project_id, d.delivery_id, m.before, d.state),
  attempts as (
    insert into delivery_attempts (project_id, delivery_id, attempt, at, status_code, latency_ms, error)
    select project_id, delivery_id, attempt, to_timestamp(sent_at / 1000.0), status_code, latency_ms, error
    from mine where sent_at is not null)
  select * from written`;

/** Writes the results of claims that are `owner`'s still; the others have no answer. */
export async function writeDeliveryResults(
  tx: Queryable,
  owner: string,
  results: readonly DeliveryResult[],
): Promise<WrittenResult[]> {
  const values = results.map(({ sent, ...result }) => ({
    project_id: result.projectId,
    delivery_id: result.deliveryId,
    attempt: result.attempt,
    state: result.state,
    next_attempt_at: result.nextAttemptMs,
    sent_at: sent?.atMs,
    status_code: sent?.statusCode,
    latency_ms: sent?.latencyMs,
    error: sent?.error,
    ended_at: result.endedMs,
  }));
  const { rows } = await tx.query<{
    project_id: string;
    delivery_id: string;
    before: DeliveryState;
    state: DeliveryState;
  }>({ name: 'write-delivery-results', text: WRITE_RESULTS, values: [JSON.stringify(values), owner] });
  return rows.map((row) => ({
    projectId: row.project_id,
    deliveryId: row.delivery_id,
    before: row.before,
    state: row.state,
  }));
}

/** The newest delivery of each endpoint; an older one never replaces a newer one. The rows are locked by the caller. */
export async function updateLastDeliveries(
  tx: Queryable,
  lasts: readonly (EndpointRef & { last: LastDelivery })[],
): Promise<void> {
  if (lasts.length === 0) return;
  await tx.query({
    name: 'update-last-deliveries',
    text: `update callback_endpoints e set last_delivery = v.last
      from unnest($1::uuid[], $2::text[], $3::jsonb[]) as v (project_id, endpoint_id, last)
      where e.project_id = v.project_id and e.endpoint_id = v.endpoint_id and e.removed_at is null
        and (e.last_delivery is null
          or (e.last_delivery->>'at')::timestamptz <= (v.last->>'at')::timestamptz)`,
    values: [
      lasts.map((one) => one.projectId),
      lasts.map((one) => one.endpointId),
      lasts.map((one) => JSON.stringify(one.last)),
    ],
  });
}
