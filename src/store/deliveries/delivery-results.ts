// Writes the outcome of attempts, many at once, in one statement: deliveries, attempts, timelines, and the newest delivery
// of each endpoint. Lock order: the endpoints' rows, then deliveries, each in key order, as for every writer that ends
// deliveries.
import type { DeliveryState } from '../../domain/callback.ts';
import { type EndpointRef, setLastDelivery } from '../callbacks/callback-endpoints.ts';
import { ENTRY_FACTS, NEW_ENTRY, type NewEntry } from '../incidents/incidents.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { fromMillis, isoText, NOW_MS } from '../postgres/moments.ts';
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

const RESULT: Columns<DeliveryResult> = {
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
}

const WRITTEN: Columns<WrittenResult> = {
  projectId: DELIVERY.projectId,
  deliveryId: DELIVERY.deliveryId,
  state: DELIVERY.state,
  endedMs: column.moment('ended_at'),
};
const toWrittenResult = rowReader(WRITTEN);

// A delivery that was canceled meanwhile stays canceled; its attempt is recorded. A delivery whose lease another
// dispatcher has taken belongs to that dispatcher: this result is not written. Each row is looked up by its key, in key
// order: a join would read every waiting delivery. `mine` needs `busy`, which needs `locked`: so endpoints are locked before
// deliveries.
const WRITE = statement(
  'write-delivery-results',
  (bind: Bind<DeliveryResults>) => `with moment as materialized (select ${NOW_MS} as now_ms),
  result as materialized (
    select v.* from ${sql.recordset(RESULT, bind, ({ results }) => results)}),
  endpoint as materialized (
    select distinct r.endpoint_project_id as project_id, r.endpoint_id from result r),
  locked as materialized (
    select e.* from (select * from endpoint order by project_id, endpoint_id) v
    cross join lateral (
      select e.project_id, e.endpoint_id from callback_endpoints e
      where e.project_id = v.project_id and e.endpoint_id = v.endpoint_id
      for update skip locked) e),
  busy as materialized (
    select v.* from endpoint v
    where exists (
        select from callback_endpoints e
        where e.project_id = v.project_id and e.endpoint_id = v.endpoint_id offset 0)
      and not exists (
        select from locked l where l.project_id = v.project_id and l.endpoint_id = v.endpoint_id)),
  mine as materialized (
    select r.*, d.before, moment.now_ms, moment.now_ms as at from (
      select r.* from result r
      where not exists (
        select from busy b where b.project_id = r.endpoint_project_id and b.endpoint_id = r.endpoint_id)
      order by r.project_id, r.delivery_id) r
    cross join moment
    cross join lateral (
      select d.state as before from deliveries d
      where d.project_id = r.project_id and d.delivery_id = r.delivery_id and d.attempt_count = r.attempt - 1
        and (d.lease_owner = ${bind(({ owner }) => owner)} and d.state in ('pending', 'failing') or d.state = 'canceled')
      for update) d),
  written as (
    update deliveries d set
      attempt_count = case when m.started_in is null then d.attempt_count else m.attempt end,
      state = case when m.state = 'unchanged' or m.before = 'canceled' then d.state else m.state end,
      next_attempt_at = case when m.before <> 'canceled' then ${fromMillis('(m.now_ms + m.next_attempt_in)')} end,
      ended_at = coalesce(d.ended_at, case when m.state in ('delivered', 'exhausted', 'canceled')
        then ${fromMillis('(m.now_ms + coalesce(m.ended_in, 0))')} end),
      delivered_at = case when m.state = 'delivered' and m.before <> 'canceled'
        then ${fromMillis('(m.now_ms + m.ended_in)')} end,
      lease_owner = null, lease_until = null,
      first_at = coalesce(d.first_at, ${fromMillis('(m.now_ms + m.started_in)')}),
      first_status_code = case when m.attempt = 1 then m.status_code else d.first_status_code end,
      first_latency_ms = case when m.attempt = 1 then m.latency_ms else d.first_latency_ms end,
      first_error = case when m.attempt = 1 then m.error else d.first_error end
    from mine m where d.project_id = m.project_id and d.delivery_id = m.delivery_id
    returning ${sql.select(WRITTEN, 'd')}),
  attempts as (
    insert into delivery_attempts (project_id, delivery_id, ${sql.names(ATTEMPT)})
    select project_id, delivery_id, attempt, ${fromMillis('(now_ms + started_in)')}, status_code, latency_ms, error
    from mine where started_in is not null and attempt > 1),
  entries as (
    insert into timeline_entries (${sql.names(NEW_ENTRY)})
    select ${sql.values(NEW_ENTRY)} from mine v
    where v.entry_id is not null and v.before <> 'canceled' and v.state <> v.before),
  newest as (
    select distinct on (m.endpoint_project_id, m.endpoint_id)
      m.endpoint_project_id as project_id, m.endpoint_id, jsonb_strip_nulls(jsonb_build_object(
        'state', m.state, 'at', ${isoText('m.now_ms + m.ended_in')}, 'statusCode', m.status_code)) as last_delivery
    from mine m where m.started_in is not null
    order by m.endpoint_project_id, m.endpoint_id, m.ended_in desc),
  last as (${setLastDelivery('newest')})
  select ${NOW_MS} as now_ms, w.*, (
    select json_agg(json_build_object('projectId', b.project_id, 'endpointId', b.endpoint_id)) from busy b) as busy
  from (select) as one left join written w on true`,
);

/** Writes the results of claims that the owner still holds. */
export async function writeDeliveryResults(db: Queryable, results: DeliveryResults): Promise<WrittenResults> {
  const { rows } = await db.query<{ now_ms: number; busy: EndpointRef[] | null; delivery_id: string | null }>(
    WRITE(results),
  );
  const [first] = rows;
  if (!first) throw new Error('The database answered without a time.');
  const written = rows.filter((row) => row.delivery_id !== null).map(toWrittenResult);
  return { written, busy: first.busy ?? [], nowMs: first.now_ms };
}
