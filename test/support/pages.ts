// What a statement of the store costs: the pages and the rows that it reads, and what it writes to the write-ahead log.
import type pg from 'pg';
import type { Connection, Database, Pool } from '../../src/store/postgres/pool.ts';

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
  try {
    await work({ query: query as Pool['query'] }).catch((error: unknown) => {
      if (!costs) throw error;
    });
  } finally {
    // What has failed may have left its transaction open.
    client.release(!costs);
  }
  if (!costs) throw new Error('There was no statement.');
  return costs;
}

export async function pagesOf(
  pool: Pool,
  work: (db: Pick<Pool, 'query'>) => Promise<unknown>,
): Promise<number> {
  return (await costsOf(pool, work)).pages;
}

/** The rows that the statements whose names begin so read of all tables, with their generic plans. */
export async function rowsReadBy(
  pool: Pool,
  name: string,
  work: (db: Database) => Promise<unknown>,
): Promise<number> {
  return Math.round((await plansOf(pool, name, work)).reduce((sum, plan) => sum + rowsRead(plan), 0));
}

/** How often such statements begin to look into a table, or a partition of it. */
export async function scansBy(
  pool: Pool,
  { name, table }: { name: string; table: string },
  work: (db: Database) => Promise<unknown>,
): Promise<number> {
  const scans = ({ Plans: children = [], ...plan }: Plan): number =>
    children.reduce((sum, child) => sum + scans(child), 0) +
    (plan['Relation Name']?.startsWith(table) ? plan['Actual Loops'] : 0);
  return (await plansOf(pool, name, work)).reduce((sum, plan) => sum + scans(plan), 0);
}

/** Throws where none ran. */
async function plansOf(pool: Pool, name: string, work: (db: Database) => Promise<unknown>): Promise<Plan[]> {
  const client = await pool.connect();
  await client.query('set plan_cache_mode = force_generic_plan');
  const plans: Plan[] = [];
  const query = async (statement: pg.QueryConfig, values?: unknown[]) => {
    if (statement.name?.startsWith(name)) {
      await client.query(`prepare measured as ${statement.text}`);
      const literals = (statement.values ?? []).map(literalOf).join(', ');
      const { rows } = await client.query(`explain (analyze, format json) execute measured (${literals})`);
      await client.query('deallocate measured');
      plans.push(rows[0]['QUERY PLAN'][0].Plan);
    }
    return await client.query(statement, values);
  };
  const connection = { query, release: () => undefined } as unknown as Connection;
  try {
    await work({ query: query as Pool['query'], connect: async () => connection });
  } finally {
    client.release(true);
  }
  if (plans.length === 0) throw new Error(`No statement whose name begins with ${name} ran.`);
  return plans;
}

interface Plan {
  'Relation Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: Plan[];
}

function rowsRead({ Plans: children = [], ...plan }: Plan): number {
  const inner = children.reduce((sum, child) => sum + rowsRead(child), 0);
  if (plan['Relation Name'] === undefined) return inner;
  // With those that a filter leaves out.
  return inner + plan['Actual Loops'] * (plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0));
}

function literalOf(value: unknown): string {
  if (value === undefined || value === null) return 'null';
  const elementOf = (one: unknown) =>
    one === undefined || one === null ? 'null' : JSON.stringify(String(one));
  const text = Array.isArray(value) ? `{${value.map(elementOf).join(',')}}` : String(value);
  return `'${text.replaceAll("'", "''")}'`;
}
