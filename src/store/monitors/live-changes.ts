// live_changes: which live rows each transaction changed. Every statement that stamps live rows for the status feed writes
// it, so that the stamp needs no index, and a beat no entry in one (docs/adr/0004).
import type { Queryable } from '../postgres/pool.ts';

/** A row of twice as many keys would not fit into a quarter of a page, and Postgres would store it apart. */
const KEYS_IN_ROW = 64;

/** SQL that records the changed rows of the CTE `from`, which has `project_id` and `monitor_key`. */
export function recordChanges(from: string): string {
  return `insert into live_changes (project_hashes, monitor_keys)
    select array_agg(uuid_hash(project_id)), array_agg(monitor_key)
    from (select project_id, monitor_key, (row_number() over () - 1) / ${KEYS_IN_ROW} as part from ${from}) parts
    group by part`;
}

/** How long changes are kept at least. Readers whose cursor is older read all live rows of their projects. */
const KEPT = "interval '1 minute'";

/**
 * Raises the floor when the next one is old enough: what is below it is no longer read. The transactions below it have
 * ended, so that nothing is missing above it. Ids of a dump from another cluster may be higher than any of this one.
 */
const RAISE_FLOOR = `update live_changes_floor set next_at = clock_timestamp(),
    next_xid = pg_snapshot_xmin(pg_current_snapshot()),
    floor_xid = case when next_xid < pg_snapshot_xmin(pg_current_snapshot()) then next_xid
      else pg_snapshot_xmin(pg_current_snapshot()) end
  where next_at < clock_timestamp() - ${KEPT}`;

const DELETE = `delete from live_changes where ctid = any (array(
    select c.ctid from live_changes c, live_changes_floor f
    where c.changed_xid < f.floor_xid order by c.changed_xid limit $1))`;

/** Deletes at most `limit` rows of changes that nobody reads any more, and returns how many. */
export async function deleteOldChanges(db: Queryable, limit: number): Promise<number> {
  // Two transactions: a reader that sees a row deleted sees the floor above it.
  await db.query(RAISE_FLOOR);
  const { rowCount } = await db.query(DELETE, [limit]);
  return rowCount ?? 0;
}
