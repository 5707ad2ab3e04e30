// sealed-values.ts on Citus, which neither skips locked rows of several shards nor has recursion over them.
import { isLockTimeout } from '../postgres/database-error.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { groupByShard, limitLockWait } from '../postgres/shards.ts';
import { inTransaction } from '../postgres/transaction.ts';

/** What it needs of a SealedTable, and of a ResealedValue. */
interface Table {
  table: string;
  box: string;
  row: readonly (readonly [name: string, type: string, lowest: string])[];
}
interface Value {
  row: readonly string[];
  box: Buffer;
  newBox: Buffer;
}

/** A value that somebody holds for longer stays as it is. */
const LOCK_MS = 250;
/** The column by which answers are in shards. Endpoints and their secrets are whole on each machine. */
const PLACED_BY = 'scope_id';
const isPlaced = ({ row }: Pick<Table, 'row'>) => row.some(([name]) => name === PLACED_BY);

/**
 * A transaction for each shard; where a lock holds it up, for each half of its values. Who locks a row of a table that is whole
 * on each machine locks the table for others: its values wait for the next pass.
 */
export async function replaceInShards(db: Database, table: Table, values: readonly Value[]): Promise<number> {
  const at = table.row.findIndex(([name]) => name === PLACED_BY);
  const placed = values.map((value) => ({ value, projectId: value.row[at] ?? '' }));
  const groups = !isPlaced(table) ? [placed] : await groupByShard(db, placed);
  let count = 0;
  for (const group of groups) {
    count += await replaceGroup(
      db,
      table,
      group.map(({ value }) => value),
    );
  }
  return count;
}

async function replaceGroup(db: Database, table: Table, values: readonly Value[]): Promise<number> {
  try {
    return await inTransaction(db, (tx) => replace(tx, table, values));
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    if (values.length === 1 || !isPlaced(table)) return 0;
    const middle = Math.ceil(values.length / 2);
    const first = await replaceGroup(db, table, values.slice(0, middle));
    return first + (await replaceGroup(db, table, values.slice(middle)));
  }
}

async function replace(tx: Queryable, { table, box, row }: Table, values: readonly Value[]): Promise<number> {
  await limitLockWait(tx, LOCK_MS);
  const names = row.map(([name]) => name);
  const places = row.map(([, type], index) => `$${index + 3}::${type}[]`);
  const at = names.indexOf(PLACED_BY);
  const { rowCount } = await tx.query(
    `update ${table} t set ${box} = v.new_box
     from unnest($1::bytea[], $2::bytea[], ${places.join(', ')}) as v (old_box, new_box, ${names.join(', ')})
     where t.${box} = v.old_box and ${names.map((name) => `t.${name} = v.${name}`).join(' and ')}
       ${!isPlaced({ row }) ? '' : `and t.${PLACED_BY} = any(${places[at]})`}`,
    [
      values.map((value) => value.box),
      values.map((value) => value.newBox),
      ...names.map((_, index) => values.map((value) => value.row[index])),
    ],
  );
  return rowCount ?? 0;
}

/** Key by key: the next one, then its values up to `limit`. */
export async function countInShards(
  db: Queryable,
  { table, keyId }: { table: string; keyId: string },
  limit: number,
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  const nextOf = async (last: string) => {
    const { rows } = await db.query<{ id: string }>(
      `select ${keyId} as id from ${table} where ${keyId} > $1 order by ${table}.${keyId} limit 1`,
      [last],
    );
    return rows[0]?.id;
  };
  for (let id = await nextOf(''); id !== undefined; id = await nextOf(id)) {
    const { rows } = await db.query<{ count: number }>(
      `select count(*)::integer as count from (select ${keyId} from ${table} where ${keyId} = $1 limit $2) of_key`,
      [id, limit],
    );
    counts.set(id, rows[0]?.count ?? 0);
  }
  return counts;
}
