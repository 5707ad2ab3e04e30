// Writes the outcome of attempts, many at once, in one statement: deliveries, attempts, timelines, and the newest delivery
// of each endpoint. Lock order: the endpoints' rows, then deliveries, each in key order, as for every writer that ends
// deliveries.
import { type EndpointRef, setLastDelivery } from '../callbacks/callback-endpoints.ts';
import { NEW_ENTRY } from '../incidents/incidents.ts';
import { type Bind, sql, statement } from '../postgres/columns.ts';
import { isDistributed } from '../postgres/engine.ts';
import { fromMillis, isoText, NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { ATTEMPT } from './deliveries.ts';
import {
  assignResult,
  type DeliveryResults,
  RESULT,
  toWrittenResult,
  WRITTEN,
  type WrittenResults,
} from './delivery-result.ts';
import { writeResultsInShard } from './results-in-shard.ts';

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
      ${assignResult('m')}
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

/**
 * Writes the results of claims that the owner still holds. On Citus, where it is several statements, call it in a
 * transaction, with results of one shard.
 */
export async function writeDeliveryResults(db: Queryable, results: DeliveryResults): Promise<WrittenResults> {
  if (isDistributed()) return await writeResultsInShard(db, results);
  const { rows } = await db.query<{ now_ms: number; busy: EndpointRef[] | null; delivery_id: string | null }>(
    WRITE(results),
  );
  const [first] = rows;
  if (!first) throw new Error('The database answered without a time.');
  const written = rows.filter((row) => row.delivery_id !== null).map(toWrittenResult);
  return { written, busy: first.busy ?? [], nowMs: first.now_ms };
}
