// What a database holds, for tests of what a call changed: all rows of a project, and how many rows each table has.
import type pg from 'pg';

type Db = Pick<pg.Pool, 'query'>;

/**
 * Tables that change by themselves: counters of calls, clocks, the feed's notes of changes, and what databases of
 * jurisdictions have copied and reserved.
 */
const RESTLESS = [
  ...['rate_windows', 'service_clock', 'live_changes', 'live_changes_floor', 'ingest_lanes'],
  ...[
    'directory_changes',
    'directory_batches',
    'directory_rows',
    'place_slots',
    'slot_reservations',
    'used_reservations',
  ],
];
/** When a credential was last used is written later. */
const RESTLESS_COLUMN = 'last_used_at';

/** Tables with these columns, without those that change by themselves. */
async function tablesWith(db: Db, column: string | undefined): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition
       and c.relname <> all($1::text[])
       and ($2::text is null or exists (
         select from pg_attribute a where a.attrelid = c.oid and a.attname = $2 and not a.attisdropped))
     order by 1`,
    [RESTLESS, column],
  );
  return rows.map(({ name }) => name);
}

/** Every row of the project, by table. */
export async function rowsOfProject(db: Db, projectId: string): Promise<Record<string, unknown[]>> {
  const found: Record<string, unknown[]> = {};
  for (const table of await tablesWith(db, 'project_id')) {
    const { rows } = await db.query<{ row: unknown }>(
      `select to_jsonb(t) - '${RESTLESS_COLUMN}' as row from ${table} t where project_id = $1 order by t::text`,
      [projectId],
    );
    found[table] = rows.map(({ row }) => row);
  }
  return found;
}

/** How many rows each table has. */
export async function countRows(db: Db): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const table of await tablesWith(db, undefined)) {
    const { rows } = await db.query<{ count: number }>(`select count(*)::integer as count from ${table}`);
    counts.set(table, rows[0]?.count ?? 0);
  }
  return counts;
}

/** The tables that have more or fewer rows than before, with the difference. */
export function differenceOf(
  before: Map<string, number>,
  after: Map<string, number>,
): Record<string, number> {
  const changed = [...after].map(([table, count]) => [table, count - (before.get(table) ?? 0)] as const);
  return Object.fromEntries(changed.filter(([, difference]) => difference !== 0));
}
