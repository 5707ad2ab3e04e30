// On Citus: the oldest rows of a table over all shards, in bounded pieces. Shards have no ctid in common, and a delete has no
// limit there: an age is the bound.
import type { Queryable } from './pool.ts';

export interface AgedTable {
  table: string;
  /** timestamptz, with an index. */
  column: string;
}

/**
 * The age of a piece, as text, with microseconds: about `limit` rows have it or are older, and all that have it are older than
 * `before`, SQL of a moment at the coordinator.
 */
export async function findAge(
  db: Queryable,
  { table, column }: AgedTable,
  before: string,
  limit: number,
): Promise<string> {
  const { rows } = await db.query<{ at: string }>(
    `select ((${before}) - interval '1 microsecond')::text as at`,
  );
  const [oldest] = rows;
  if (!oldest) throw new Error('The database answered without a time.');
  const { rows: full } = await db.query<{ at: string }>(
    `select ${column}::text as at from ${table} where ${column} <= $1::timestamptz
     order by ${table}.${column} limit 1 offset $2`,
    [oldest.at, limit - 1],
  );
  return full[0]?.at ?? oldest.at;
}

/** Deletes the rows of that age and the older ones, in all shards; returns how many. */
export async function deleteAged(db: Queryable, { table, column }: AgedTable, age: string): Promise<number> {
  const { rowCount } = await db.query(`delete from ${table} where ${column} <= $1::timestamptz`, [age]);
  return rowCount ?? 0;
}
