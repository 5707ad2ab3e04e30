// A backup of what a database has of the directory and of its copies, and the restore of it.
import { COPY_TABLES, DIRECTORY_TABLES } from '../../src/store/directory/directory-tables.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { inSnapshot, inTransaction } from '../../src/store/postgres/transaction.ts';

const TABLES = [...DIRECTORY_TABLES.map(({ name }) => name), ...COPY_TABLES];

export interface StoredDirectory {
  rows: Map<string, string>;
  number: number;
}

export async function backUp(pool: Pool): Promise<StoredDirectory> {
  return await inSnapshot(pool, async (tx) => {
    const rows = new Map<string, string>();
    for (const table of TABLES) {
      const { rows: found } = await tx.query<{ all: string }>(
        `select coalesce(jsonb_agg(to_jsonb(t)), '[]')::text as all from ${table} t`,
      );
      rows.set(table, found[0]?.all ?? '[]');
    }
    const { rows: numbers } = await tx.query<{ last: number }>(
      'select last_value as last from directory_numbers',
    );
    return { rows, number: numbers[0]?.last ?? 0 };
  });
}

/** Nothing else may have a transaction there. */
export async function restore(pool: Pool, stored: StoredDirectory): Promise<void> {
  await inTransaction(pool, async (tx) => {
    await tx.query('set local session_replication_role = replica');
    for (const [table, rows] of stored.rows) {
      await tx.query(`delete from ${table}`);
      const { rows: columns } = await tx.query<{ name: string }>(
        `select attname as name from pg_attribute
         where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
        [table],
      );
      const names = columns.map(({ name }) => name).join(', ');
      await tx.query(
        `insert into ${table} (${names}) select ${names} from jsonb_populate_recordset(null::${table}, $1::jsonb)`,
        [rows],
      );
    }
    await tx.query(`select setval('directory_numbers', $1)`, [stored.number]);
  });
}
