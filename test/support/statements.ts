// The statements that the product sends while something runs in this process, and the pages that they read.
import type pg from 'pg';
import { LimitedClient, type Pool } from '../../src/store/postgres/pool.ts';

export interface SentStatement {
  text: string;
  values: unknown[];
}

/** Runs `work` and returns the statements that any connection of this process has sent meanwhile; `work` gets those so far. */
export async function statementsOf(
  work: (sent: readonly SentStatement[]) => Promise<unknown>,
): Promise<SentStatement[]> {
  const sent: SentStatement[] = [];
  const send = LimitedClient.prototype.query;
  LimitedClient.prototype.query = function query(
    this: LimitedClient,
    ...args: Parameters<typeof send>
  ): never {
    const [statement, values] = args;
    if (typeof statement === 'string') {
      sent.push({ text: statement, values: Array.isArray(values) ? values : [] });
    } else {
      const config = statement as pg.QueryConfig;
      if (config.text)
        sent.push({ text: config.text, values: [...(config.values ?? (values as unknown[]) ?? [])] });
    }
    return send.apply(this, args);
  };
  try {
    await work(sent);
  } finally {
    LimitedClient.prototype.query = send;
  }
  return sent;
}

/** The pages that the reading statements among these read, of those that name the table. */
export async function pagesReadOf(
  pool: Pool,
  table: string,
  sent: readonly SentStatement[],
): Promise<number> {
  const reads = sent.filter(({ text }) => /^\s*(select|with)\b/i.test(text) && text.includes(table));
  if (reads.length === 0) throw new Error(`No statement has read ${table}.`);
  let pages = 0;
  for (const { text, values } of reads) {
    const { rows } = await pool.query(`explain (analyze, buffers, format json) ${text}`, values);
    const { Plan: plan } = rows[0]['QUERY PLAN'][0];
    pages += plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
  }
  return pages;
}
