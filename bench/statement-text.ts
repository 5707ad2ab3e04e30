// The text of a statement that the product runs, with its parameters as literals: what pgbench runs in its place.
import type { Pool, Queryable } from '../src/store/postgres/pool.ts';

/** `read` runs one statement and finds what it looks for. */
export async function statementOf(pool: Pool, read: (db: Queryable) => Promise<unknown>): Promise<string> {
  const statements: string[] = [];
  let found = 0;
  const db = {
    query: async (query: { text: string; values: unknown[] }) => {
      const { text, values } = query;
      statements.push(
        text.replaceAll(/\$(\d+)/g, (_, place) => literal(values[Number(place) - 1])).replaceAll('\n', ' '),
      );
      const result = await pool.query(query);
      found += result.rows.length;
      return result;
    },
  } as unknown as Queryable;
  await read(db);
  const [statement, ...others] = statements;
  if (!statement || others.length > 0 || found === 0) throw new Error('The read has one statement.');
  return statement;
}

function literal(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  return typeof value === 'number' ? String(value) : `'${String(value).replaceAll("'", "''")}'`;
}
