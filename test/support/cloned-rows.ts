// Many rows like one that the product has made, by number: so that a list is long without thousands of calls.
import type pg from 'pg';

type Db = Pick<pg.Pool, 'query'>;

export interface Clone {
  table: string;
  /** SQL over `t`, the row to copy: one row must fit. */
  like: string;
  /** Columns that differ, as SQL over `t` and the number `n`. The first one names the row. */
  set: Record<string, string>;
}

const REST_OF_ID = `70008${'0'.repeat(15)}`;
/** SQL of ids that have the order of their numbers: 32 hex digits, and the same as a UUIDv7. */
export const HEX_OF_N = `lpad(to_hex(n), 12, '0') || '${REST_OF_ID}'`;
export const UUID_OF_N = `(${HEX_OF_N})::uuid`;

/** The same in TypeScript. */
export const hexOf = (n: number) => `${n.toString(16).padStart(12, '0')}${REST_OF_ID}`;

export async function insertClones(db: Db, { table, like, set }: Clone, numbers: readonly number[]) {
  const { rows } = await db.query<{ name: string }>(
    `select column_name as name from information_schema.columns
     where table_schema = 'public' and table_name = $1 and is_generated = 'NEVER' and is_identity = 'NO'`,
    [table],
  );
  const columns = rows.map(({ name }) => name);
  const { rowCount } = await db.query(
    `insert into ${table} (${columns.join(', ')})
     select ${columns.map((name) => set[name] ?? `t.${name}`).join(', ')}
     from (select * from ${table} t where ${like} limit 1) t cross join unnest($1::integer[]) n`,
    [numbers],
  );
  if (rowCount !== numbers.length) throw new Error(`There is no row of ${table} to copy.`);
}

export async function deleteClones(db: Db, { table, like, set }: Clone, numbers: readonly number[]) {
  const [[name, id] = []] = Object.entries(set);
  await db.query(
    `delete from ${table} where ${name} in (
       select ${id} from (select * from ${table} t where ${like} limit 1) t cross join unnest($1::integer[]) n)`,
    [numbers],
  );
}
