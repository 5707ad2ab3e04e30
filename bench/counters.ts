// Counters of Postgres: the same work gives the same numbers on a busy machine.
import type { Pool } from '../src/store/postgres/pool.ts';

export interface Counters {
  commits: number;
  walBytes: number;
  /** Of rows of `monitor_live`. */
  updates: number;
  /** Those that left the indexes alone. */
  hotUpdates: number;
}

/** Postgres counts what a connection does some seconds later, or when the connection closes: close those that matter. */
export async function readCounters(pool: Pool): Promise<Counters> {
  const { rows } = await pool.query<Counters>(
    `select d.xact_commit as commits, (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint as "walBytes",
       t.n_tup_upd as updates, t.n_tup_hot_upd as "hotUpdates"
     from pg_stat_database d, pg_stat_user_tables t
     where d.datname = current_database() and t.relname = 'monitor_live'`,
  );
  if (!rows[0]) throw new Error('Postgres has no counters.');
  return rows[0];
}
