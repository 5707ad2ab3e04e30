// The default partition of a table of history: it takes rows for whose time no partition was created. No row is moved out
// of it. With its rows it becomes a partition of their days, and an empty one takes its place.
import { DAY_MS } from '../../domain/retention.ts';
import { deleteAged, findAge } from './aged-rows.ts';
import { isDistributed } from './engine.ts';
import { wholeMillis } from './moments.ts';
import {
  keptFrom,
  listPartitions,
  type Partition,
  type PartitionConnection,
  type PartitionedTable,
  partitionAt,
  partitionOver,
  readMs,
  withDefaultLocked,
} from './partitions.ts';
import type { Queryable } from './pool.ts';

/** The seven days of constrain_default. */
const CONSTRAINED_MS = 7 * DAY_MS;

/**
 * Makes a partition of the default one and its rows; returns its name. Undefined when there is nothing to do, when there
 * are rows before and after another partition, or when partitions ahead are missing that must be created first. Beats and readers wait for moments only, however many rows there
 * are, and see every row at any time: Postgres checks the rows against a constraint beside them (VALIDATE), and does not
 * read them again under the lock. It reads them all, twice: `db` must have the time.
 *
 * It may stop after any step, and two may run at once. The constraint that it leaves then refuses no row of the next seven
 * days, for which the database itself cares (constrain_default): whoever runs next drops it, or completes the work.
 */
export async function convertDefault(
  db: PartitionConnection,
  of: PartitionedTable,
): Promise<string | undefined> {
  const partition = await planPartition(db, of);
  await dropConstraints(db, of, partition?.name);
  if (!partition) return undefined;
  const { name } = partition;
  if ((await readConstraint(db, of, name)) === undefined) {
    await withDefaultLocked(db, of, () => db.query('select constrain_default($1, $2)', [of.table, name]));
  }
  await db.query('select validate_default($1, $2)', [of.table, name]);
  const isDone = await withDefaultLocked(db, of, async () => {
    // Another process has done it: the default partition is a new one, without the constraint.
    if (!(await readConstraint(db, of, name))?.isValid) return false;
    // Not while a step of the sums reads: beats would wait behind us, and we for the step.
    await db.query('select from observation_sums for update');
    await db.query('select replace_default($1, $2)', [of.table, name]);
    return true;
  });
  return isDone ? name : undefined;
}

/**
 * From the day of the first row to the next partition, or to the end of the last one ahead. The constraint refuses rows
 * of all other time, so partitions must hold the rest of the next seven days.
 */
async function planPartition(db: PartitionConnection, of: PartitionedTable): Promise<Partition | undefined> {
  const { table, column } = of;
  const { rows } = await db.query<{ first_ms: string | null; last_ms: string | null }>(
    `select ${wholeMillis(`min(${column})`)}::text as first_ms, ${wholeMillis(`max(${column})`)}::text as last_ms
     from ${table}_default`,
  );
  const [row] = rows;
  if (!row || row.first_ms === null || row.last_ms === null) return undefined;
  const [firstMs, lastMs] = [Number(row.first_ms), Number(row.last_ms)];
  const nowMs = await readMs(db, 'clock_timestamp()');
  const partitions = await listPartitions(db, of);
  const later = partitions.filter(({ fromMs }) => fromMs > firstMs);
  const toMs = Math.min(partitionAt(of, nowMs, of.ahead + 1).fromMs, ...later.map(({ fromMs }) => fromMs));
  if (lastMs >= toMs) return undefined;
  const planned = partitionOver(of, firstMs, toMs);
  const holding = [...partitions.filter(({ isAttached }) => isAttached), planned];
  return holdAll(holding, nowMs, nowMs + CONSTRAINED_MS) ? planned : undefined;
}

function holdAll(partitions: readonly Partition[], fromMs: number, toMs: number): boolean {
  let heldMs = fromMs;
  for (const { fromMs: start, toMs: end } of partitions.toSorted((a, b) => a.fromMs - b.fromMs)) {
    if (start <= heldMs) heldMs = Math.max(heldMs, end);
  }
  return heldMs >= toMs;
}

/** Drops the constraints of runs that did not end, but not that of the partition `kept`. */
async function dropConstraints(
  db: PartitionConnection,
  of: PartitionedTable,
  kept: string | undefined,
): Promise<void> {
  const { rows } = await db.query<{ name: string }>(
    `select substring(conname from $2) as name from pg_constraint
     where conrelid = $1::regclass and contype = 'c' and substring(conname from $2) <> $3`,
    [`${of.table}_default`, `^(${of.table}_[0-9_]+)_rows$`, kept ?? ''],
  );
  for (const { name } of rows) {
    await withDefaultLocked(db, of, () => db.query('select release_default($1, $2)', [of.table, name]));
  }
}

/** The constraint that says of the default partition's rows that they belong to the partition `name`. */
async function readConstraint(
  db: PartitionConnection,
  { table }: PartitionedTable,
  name: string,
): Promise<{ isValid: boolean } | undefined> {
  const { rows } = await db.query<{ is_valid: boolean }>(
    `select convalidated as is_valid from pg_constraint where conrelid = $1::regclass and conname = $2`,
    [`${table}_default`, `${name}_rows`],
  );
  const [row] = rows;
  return row && { isValid: row.is_valid };
}

/** Rows in the default partition, counted up to 100,000. Any row there is a fault (docs/operations.md). */
export async function countDefaultRows(db: Queryable, { table }: PartitionedTable): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::integer as count from (select 1 from ${table}_default limit 100000) as r`,
  );
  return rows[0]?.count ?? 0;
}

/** Deletes rows of the default partition that are as old as dropped partitions; about `limit`. Returns how many. */
export async function deleteOldDefaultRows(
  db: Queryable,
  of: PartitionedTable,
  limit: number,
): Promise<number> {
  const { table, column } = of;
  if (isDistributed()) {
    const rows = { table: `${table}_default`, column };
    return await deleteAged(db, rows, await findAge(db, rows, keptFrom(of), limit));
  }
  const { rowCount } = await db.query(
    `delete from ${table}_default where ctid = any (array(
       select ctid from ${table}_default where ${column} < ${keptFrom(of)} limit $1))`,
    [limit],
  );
  return rowCount ?? 0;
}
