// Writes the outcome of attempts, many at once, in one statement: deliveries, attempts, timelines, and the newest delivery
// of each endpoint. Lock order: the endpoints' rows, then deliveries, each in key order, as for every writer that ends
// deliveries.
import type { DeliveryState } from '../../domain/callback.ts';
import {
  type EndpointRef,
  NEWEST_DELIVERY,
  type NewestDelivery,
  setLastDelivery,
} from '../callbacks/callback-endpoints.ts';
import { NEW_ENTRY, type NewEntry } from '../incidents/incidents.ts';
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

/** The outcome of one attempt, or of a claim without one. */
export interface DeliveryResult {
  projectId: string;
  deliveryId: string;
  endpoint: EndpointRef;
  /** 1 for the first attempt. */
  attempt: number;
  /** `unchanged`: no attempt was possible, and the receiver is not the cause. */
  state: Exclude<DeliveryState, 'pending'> | 'unchanged';
  nextAttemptMs?: number;
  /** Set when an attempt was made. */
  sent?: { atMs: number; statusCode?: number; latencyMs: number; error?: string };
  endedMs?: number;
  /** Of the incident's timeline: written where the state changes. */
  entry?: Omit<NewEntry, 'projectId'>;
}

const { projectId: _, ...ENTRY } = NEW_ENTRY;

const RESULT: Columns<DeliveryResult> = {
  projectId: DELIVERY.projectId,
  deliveryId: DELIVERY.deliveryId,
  endpoint: { projectId: DELIVERY.endpointProjectId, endpointId: DELIVERY.endpointId },
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
  entry: column.optional<Omit<NewEntry, 'projectId'>>(ENTRY),
};

export interface DeliveryResults {
  /** Of the leases. */
  owner: string;
  results: readonly DeliveryResult[];
  /** Each endpoint of the results once, with the newest attempt of all results. */
  endpoints: readonly NewestDelivery[];
}

export interface WrittenResult {
  projectId: string;
  deliveryId: string;
  state: DeliveryState;
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
};
const toWrittenResult = rowReader(WRITTEN);

// A delivery that was canceled meanwhile stays canceled; its attempt is recorded. A delivery whose lease another
// dispatcher has taken belongs to that dispatcher: this result is not written. Each row is looked up by its key, in key
// order: a join would read every waiting delivery. `mine` needs `busy`, which needs `locked`: so endpoints are locked before
// deliveries.
const WRITE = statement(
  'write-delivery-results',
  (bind: Bind<DeliveryResults>) => `with endpoint as materialized (
    select v.* from ${sql.unnest(NEWEST_DELIVERY, bind, ({ endpoints }) => endpoints)}),
  result as materialized (
    select v.* from ${sql.recordset(RESULT, bind, ({ results }) => results)}),
  locked as materialized (
    select e.project_id, e.endpoint_id from callback_endpoints e
    where (e.project_id, e.endpoint_id) in (select v.project_id, v.endpoint_id from endpoint v)
    order by e.project_id, e.endpoint_id
    for update skip locked),
  busy as materialized (
    select e.project_id, e.endpoint_id from callback_endpoints e
    where (e.project_id, e.endpoint_id) in (select v.project_id, v.endpoint_id from endpoint v)
    except select * from locked),
  mine as materialized (
    select r.*, d.before from (
      select r.* from result r
      where not exists (
        select from busy b where b.project_id = r.endpoint_project_id and b.endpoint_id = r.endpoint_id)
      order by r.project_id, r.delivery_id) r
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
      lease_owner = null, lease_until = null,
      first_at = coalesce(d.first_at, ${fromMillis('m.sent_at')}),
      first_status_code = case when m.attempt = 1 then m.status_code else d.first_status_code end,
      first_latency_ms = case when m.attempt = 1 then m.latency_ms else d.first_latency_ms end,
      first_error = case when m.attempt = 1 then m.error else d.first_error end
    from mine m where d.project_id = m.project_id and d.delivery_id = m.delivery_id
    returning ${sql.select(WRITTEN, 'd')}),
  attempts as (
    insert into delivery_attempts (project_id, delivery_id, ${sql.names(ATTEMPT)})
    select project_id, delivery_id, attempt, ${fromMillis('sent_at')}, status_code, latency_ms, error
    from mine where sent_at is not null and attempt > 1),
  entries as (
    insert into timeline_entries (${sql.names(NEW_ENTRY)})
    select ${sql.values(NEW_ENTRY)} from mine v
    where v.entry_id is not null and v.before <> 'canceled' and v.state <> v.before),
  last as (${setLastDelivery('endpoint')} and exists (
    select from mine m
    where m.endpoint_project_id = v.project_id and m.endpoint_id = v.endpoint_id and m.sent_at is not null))
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
