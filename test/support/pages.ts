// What a statement of the store costs: the pages that it reads, and what it writes to the write-ahead log.
import type pg from 'pg';
import type { Pool } from '../../src/store/postgres/pool.ts';

export interface StatementCosts {
  pages: number;
  walRecords: number;
  /** Without the images of pages that are written for the first time since a checkpoint. */
  walBytes: number;
}

const PAGE_BYTES = 8_192;

/** Runs the statement that `work` runs, with its generic plan, and rolls it back. */
export async function costsOf(
  pool: Pool,
  work: (db: Pick<Pool, 'query'>) => Promise<unknown>,
): Promise<StatementCosts> {
  const client = await pool.connect();
  let costs: StatementCosts | undefined;
  const query = async ({ text, values }: pg.QueryConfig) => {
    await client.query('begin');
    await client.query('set local plan_cache_mode = force_generic_plan');
    await client.query(`prepare measured as ${text}`);
    const { rows } = await client.query(
      `explain (analyze, buffers, wal, format json) execute measured (${(values ?? []).map(literalOf).join(', ')})`,
    );
    await client.query('rollback');
    await client.query('deallocate measured');
    const { Plan: plan } = rows[0]['QUERY PLAN'][0];
    costs = {
      pages: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
      walRecords: plan['WAL Records'],
      walBytes: Math.max(0, plan['WAL Bytes'] - plan['WAL FPI'] * PAGE_BYTES),
    };
    return { rows: [] };
  };
  // Some functions want a row of the answer.
  await work({ query: query as Pool['query'] }).catch((error: unknown) => {
    if (!costs) throw error;
  });
  client.release();
  if (!costs) throw new Error('There was no statement.');
  return costs;
}

export async function pagesOf(
  pool: Pool,
  work: (db: Pick<Pool, 'query'>) => Promise<unknown>,
): Promise<number> {
  return (await costsOf(pool, work)).pages;
}

function literalOf(value: unknown): string {
  if (value === undefined || value === null) return 'null';
  const elementOf = (one: unknown) =>
    one === undefined || one === null ? 'null' : JSON.stringify(String(one));
  const text = Array.isArray(value) ? `{${value.map(elementOf).join(',')}}` : String(value);
  return `'${text.replaceAll("'", "''")}'`;
}
