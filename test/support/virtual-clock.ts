// A database whose clock a test sets: hours pass at once, and a busy machine adds nothing to them.
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';

export interface VirtualClock {
  /** For parts of the product that are to have the test's clock. */
  databaseUrl: string;
  /** Its statements see the test's clock. */
  pool: Pool;
  /** The database's time, ms. It stands still otherwise. */
  readonly nowMs: number;
  /** Sets the clock forward, or back. */
  pass(ms: number): Promise<void>;
  close(): Promise<void>;
}

/** A schema that comes before that of Postgres has a `clock_timestamp()` of its own. */
export async function openVirtualClock(databaseUrl: string): Promise<VirtualClock> {
  const url = new URL(databaseUrl);
  url.searchParams.set('options', '-c search_path=public,pg_catalog');
  const longMs = 200_000;
  const pool = openPool({
    databaseUrl: url.href,
    size: 8,
    applicationName: 'virtual-clock',
    statementTimeoutMs: longMs,
    connectTimeoutMs: longMs,
    idleInTransactionMs: longMs,
  });
  let nowMs = Date.parse('2026-01-01T00:00:00Z');
  await pool.query('create table virtual_clock (at timestamptz not null)');
  await pool.query('insert into virtual_clock values (to_timestamp($1::float8 / 1000))', [nowMs]);
  await pool.query(
    `create function clock_timestamp() returns timestamptz language sql volatile as 'select at from virtual_clock'`,
  );
  return {
    databaseUrl: url.href,
    pool,
    get nowMs() {
      return nowMs;
    },
    async pass(ms) {
      nowMs += ms;
      await pool.query('update virtual_clock set at = to_timestamp($1::float8 / 1000)', [nowMs]);
    },
    close: () => pool.end(),
  };
}
