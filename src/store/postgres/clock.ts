// The database's clock: the one that all replicas share.
import type { Queryable } from './pool.ts';

/** Milliseconds since 1970, now. */
export async function readNow(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ now_ms: number }>(
    'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms',
  );
  const row = rows[0];
  if (!row) throw new Error('The database told no time.');
  return row.now_ms;
}
