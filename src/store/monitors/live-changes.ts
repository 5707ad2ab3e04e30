// live_changes: which live rows each transaction changed. Every statement that stamps live rows for the status feed writes
// it, so that the stamp needs no index, and a beat no entry in one (docs/adr/0004).
import { isDistributed } from '../postgres/engine.ts';
import type { Queryable } from '../postgres/pool.ts';

/** A row of twice as many keys would not fit into a quarter of a page, and Postgres would store it apart. */
const KEYS_IN_ROW = 64;

/** SQL that records the changed rows of the CTE `from`, which has `project_id` and `monitor_key`. */
export function recordChanges(from: string): string {
  // On Citus the row is in the shard of its monitors, which are all in one.
  const [key, value] = isDistributed() ? ['shard_key, ', '(array_agg(project_id))[1], '] : ['', ''];
  return `insert into live_changes (${key}project_hashes, monitor_keys)
    select ${value}${recordsOf(from)}`;
}

const recordsOf = (from: string) => `array_agg(uuid_hash(project_id)), array_agg(monitor_key)
    from (select project_id, monitor_key, (row_number() over () - 1) / ${KEYS_IN_ROW} as part from ${from}) parts
    group by part`;

/**
 * As `recordChanges` of the arrays `from`, on Citus: SQL that the machine runs by itself which has the live row of `projectId`
 * and `monitorKey`, one of those that changed.
 */
export function recordAtLiveRow(from: string, projectId: string, monitorKey: string): string {
  return `insert into live_changes (shard_key, project_hashes, monitor_keys)
    select l.project_id, records.hashes, records.keys
    from monitor_live l cross join (select ${recordsOf(from)}) records (hashes, keys)
    where l.project_id = ${projectId} and l.monitor_key = ${monitorKey}`;
}

export const FLOOR = '(select floor_xid from live_changes_floor)';

/**
 * Whether a read on Citus that found records complete for these snapshots may have missed some: ask it after the read. A
 * statement has the floor of its beginning, and reads the records later, in newer snapshots of the machines. Always false on
 * one Postgres, where floor and records are of one snapshot.
 */
export async function readPassedByFloor(db: Queryable): Promise<(since: { xmin: number }) => boolean> {
  if (!isDistributed()) return () => false;
  const { rows } = await db.query<{ floor: number }>(`select ${FLOOR}::text::bigint as floor`);
  const floor = rows[0]?.floor ?? 0;
  return ({ xmin }) => xmin < floor;
}

interface LogQuery {
  from: string;
  running: string;
  isKept: string;
  /** The snapshot of the read. */
  present: string;
  most: { records: number; keys: number };
}

/**
 * The CTEs `recent`, with the records of transactions from `from` on and of those `running`, and `log`, which says whether
 * they are few enough to be read, if `isKept`. Transactions that were over before are not read, however old the oldest is
 * that still runs anywhere on the server, and however few the planner takes them for.
 */
export function readLog({ from, running, isKept, present, most }: LogQuery): string {
  const found = isDistributed()
    ? `select * from live_changes c
        where (c.changed_xid >= ${from} or c.changed_xid in (select xid from (${running}) as running (xid)))
          and c.changed_xid < pg_snapshot_xmax(${present})`
    : `select * from live_changes c
        where c.changed_xid >= ${from} and c.changed_xid < pg_snapshot_xmax(${present})
        union all
        select c.* from (select distinct xid from (${running}) as running (xid) where xid < ${from}) running
        cross join lateral (select * from live_changes c where c.changed_xid = running.xid offset 0) c`;
  return `recent as materialized (
      select * from (
        ${found}) c
      where ${isKept} limit ${most.records + 1}),
    log as materialized (
      select ${isKept} and count(*) <= ${most.records} and coalesce(sum(cardinality(monitor_keys)), 0) <= ${most.keys}
        as is_complete, null::uuid as end_project_id, null::uuid as end_monitor_key
      from recent)`;
}

/** How long changes are kept at least. Readers whose cursor is older look at all live rows of their projects. */
const KEPT = "interval '1 minute'";

/**
 * Raises the floor when the next one is old enough: what is below it is no longer read. The transactions below it have
 * ended, so that nothing is missing above it. Ids of a dump from another cluster may be higher than any of this one.
 */
const RAISE_FLOOR = `update live_changes_floor set next_at = clock_timestamp(), next_xid = present.xid,
    floor_xid = case when next_xid < present.xid then next_xid else present.xid end,
    deleted_xid = case when deleted_xid < present.xid then deleted_xid else '0' end
  from (select pg_snapshot_xmin(pg_current_snapshot()) as xid) present
  where next_at < clock_timestamp() - ${KEPT}`;

const DELETE = `with gone as (
    delete from live_changes where ctid = any (array(
      select c.ctid from live_changes c
      where c.changed_xid >= (select deleted_xid from live_changes_floor)
        and c.changed_xid < (select floor_xid from live_changes_floor)
      order by c.changed_xid limit $1))
    returning changed_xid),
  noted as (
    update live_changes_floor set deleted_xid = (select changed_xid from gone order by changed_xid desc limit 1)
    where exists (select from gone))
  select count(*)::integer as count from gone`;

/** Deletes about `limit` rows of changes that nobody reads any more, and returns how many. */
export async function deleteOldChanges(db: Queryable, limit: number): Promise<number> {
  // Two transactions: a reader that sees a row deleted sees the floor above it. On Citus it sees it in its next statement.
  await db.query(RAISE_FLOOR);
  if (isDistributed()) return await deleteInShards(db, limit);
  const { rows } = await db.query<{ count: number }>(DELETE, [limit]);
  return rows[0]?.count ?? 0;
}

/**
 * On Citus a delete has no limit: the transaction of the last of so many rows is the bound. Other replicas may delete the same
 * rows. A record that a machine has committed after its transaction was below the floor may stay.
 */
async function deleteInShards(db: Queryable, limit: number): Promise<number> {
  const { rows } = await db.query<{ deleted: string; floor: string }>(
    'select deleted_xid::text as deleted, floor_xid::text as floor from live_changes_floor',
  );
  const [bounds] = rows;
  if (!bounds) throw new Error('The table live_changes_floor has no row.');
  const { deleted, floor } = bounds;
  const { rows: full } = await db.query<{ xid: string }>(
    `select changed_xid::text as xid from live_changes where changed_xid >= $1::xid8 and changed_xid < $2::xid8
     order by live_changes.changed_xid limit 1 offset $3`,
    [deleted, floor, limit - 1],
  );
  const last = full[0]?.xid ?? floor;
  const { rowCount } = await db.query(
    'delete from live_changes where changed_xid >= $1::xid8 and changed_xid < $2::xid8 and changed_xid <= $3::xid8',
    [deleted, floor, last],
  );
  if (rowCount)
    await db.query('update live_changes_floor set deleted_xid = $1::xid8 where deleted_xid < $1::xid8', [
      last,
    ]);
  return rowCount ?? 0;
}
