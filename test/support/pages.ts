// How many pages a statement of the store reads.
import type pg from 'pg';
import type { Pool } from '../../src/store/postgres/pool.ts';

/** Runs the statement that `work` runs, with its generic plan, and rolls it back. */
export async function pagesOf(
  pool: Pool,
  work: (db: Pick<Pool, 'query'>) => Promise<unknown>,
): Promise<number> {
  const client = await pool.connect();
  let pages = Number.NaN;
  const query = async ({ text, values }: pg.QueryConfig) => {
    const literals = (values ?? []).map((value: unknown) =>
      value === undefined ? 'null' : `'${Array.isArray(value) ? `{${value.join(',')}}` : value}'`,
    );
    await client.query('begin');
    await client.query('set local plan_cache_mode = force_generic_plan');
    await client.query(`prepare measured as ${text}`);
    const { rows } = await client.query(
      `explain (analyze, buffers, format json) execute measured (${literals.join(', ')})`,
    );
    await client.query('rollback');
    await client.query('deallocate measured');
    const { Plan: plan } = rows[0]['QUERY PLAN'][0];
    pages = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
    return { rows: [] };
  };
  await work({ query: query as Pool['query'] });
  client.release();
  return pages;
}
