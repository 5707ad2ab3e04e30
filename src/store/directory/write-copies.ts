// Writes copies of the directory's rows into a place: each by compare-and-set of its number (docs/adr/0013).
import type { Queryable } from '../postgres/pool.ts';
import { DIRECTORY_TABLES, type DirectoryTable, hasKey } from './directory-tables.ts';

/** A key of a table, and its row in the state of the number. */
export interface Copy {
  table: string;
  /** As text. */
  key: string;
  number: number;
  /** As JSON; null: there is none any more. */
  row: string | null;
}

/** Writes those that are newer than what the place has, in a transaction of the place. */
export async function writeCopies(tx: Queryable, copies: readonly Copy[]): Promise<void> {
  const newer = Map.groupBy(await takeNumbers(tx, copies), ({ table }) => table);
  for (const table of [...DIRECTORY_TABLES].reverse()) {
    const gone = newer.get(table.name)?.filter(({ row }) => row === null) ?? [];
    if (gone.length > 0) await tx.query(deleteOf(table), [gone.map(({ key }) => key)]);
  }
  const columns = await readColumns(tx);
  for (const table of DIRECTORY_TABLES) {
    const present = newer.get(table.name)?.flatMap((copy) => (copy.row === null ? [] : copy)) ?? [];
    await upsert(tx, table, present, columns.get(table.name) ?? []);
  }
}

/** Those whose number is the highest that the place has seen of the key. They are locked. */
async function takeNumbers(tx: Queryable, copies: readonly Copy[]): Promise<readonly Copy[]> {
  const { rows } = await tx.query<{ table: string; key: string }>(
    `insert into directory_rows as d (table_name, row_key, number)
     select * from unnest($1::text[], $2::text[]::jsonb[], $3::bigint[]) as v (table_name, row_key, number)
     order by table_name, row_key
     on conflict (table_name, row_key) do update set number = excluded.number where d.number < excluded.number
     returning table_name as table, row_key::text as key`,
    [copies.map(({ table }) => table), copies.map(({ key }) => key), copies.map(({ number }) => number)],
  );
  const taken = new Set(rows.map(({ table, key }) => `${table} ${key}`));
  return copies.filter(({ table, key }) => taken.has(`${table} ${key}`));
}

const deleteOf = (table: DirectoryTable) =>
  `delete from ${table.name} t using unnest($1::text[]::jsonb[]) as k (row_key) where ${hasKey(table, 't', 'k.row_key')}`;

async function upsert(
  tx: Queryable,
  table: DirectoryTable,
  present: readonly Copy[],
  columns: readonly string[],
): Promise<void> {
  if (present.length === 0) return;
  if (table.nameless)
    await tx.query(
      `update ${table.name} t set ${table.nameless} from unnest($1::text[]::jsonb[]) as k (row_key)
       where ${hasKey(table, 't', 'k.row_key')}`,
      [present.map(({ key }) => key)],
    );
  // The schema of the place may be newer: a column that the directory lacks keeps its default.
  const given = new Set(Object.keys(JSON.parse(present[0]?.row ?? '{}') as object));
  const written = columns.filter((name) => given.has(name) && !table.left.includes(name));
  const names = written.join(', ');
  const changed = written.filter((name) => !(name in table.key));
  const assignments = changed.map((name) => `${name} = excluded.${name}`).join(', ');
  await tx.query(
    `insert into ${table.name} (${names})
     select ${written.map((name) => `r.${name}`).join(', ')}
     from unnest($1::text[]) as v (row), jsonb_populate_record(null::${table.name}, v.row::jsonb) as r
     on conflict (${Object.keys(table.key).join(', ')}) do update set ${assignments}`,
    [present.map(({ row }) => row)],
  );
}

/** The columns of each table that can be written. */
async function readColumns(tx: Queryable): Promise<Map<string, string[]>> {
  const { rows } = await tx.query<{ table: string; name: string }>(
    `select attrelid::regclass::text as table, quote_ident(attname) as name from pg_attribute
     where attrelid = any ($1::text[]::regclass[]) and attnum > 0 and not attisdropped and attgenerated = ''`,
    [DIRECTORY_TABLES.map(({ name }) => name)],
  );
  return new Map(
    [...Map.groupBy(rows, ({ table }) => table)].map(([table, of]) => [table, of.map(({ name }) => name)]),
  );
}
