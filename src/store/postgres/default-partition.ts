// The default partition of a table of history: it takes rows for whose time no partition was created. No row is moved out
// of it. With its rows it becomes a partition of their days, and an empty one takes its place.
import { toTime } from '../../domain/timestamp.ts';
import { wholeMillis } from './moments.ts';
import {
  boundsOf,
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

/**
 * Makes a partition of the default one and its rows; returns its name. Undefined when there is nothing to do, or when
 * there are rows before and after another partition. Beats and readers wait for moments only, however many rows there
 * are, and see every row at any time: Postgres checks the rows against a constraint beside them (VALIDATE), and does not
 * read them again under the lock. It reads them all, twice: `db` must have the time.
 *
 * It may stop after any step, and two may run at once. The constraint that it leaves then would refuse rows only of a time
 * that comes after all partitions ahead (seven days): whoever runs next drops it, or completes the work.
 */
export async function convertDefault(
  db: PartitionConnection,
  of: PartitionedTable,
): Promise<string | undefined> {
  const partition = await planPartition(db, of);
  const constraint = partition && `${partition.name}_rows`;
  await dropConstraints(db, of, constraint);
  if (!partition || !constraint) return undefined;
  if ((await readConstraint(db, of, constraint)) === undefined) {
    const { column, table } = of;
    const check = `${column} >= '${toTime(partition.fromMs)}' and ${column} < '${toTime(partition.toMs)}'`;
    await withDefaultLocked(db, of, () =>
      db.query(`alter table ${table}_default add constraint ${constraint} check (${check}) not valid`),
    );
  }
  await db.query(`alter table ${of.table}_default validate constraint ${constraint}`);
  const isDone = await withDefaultLocked(db, of, () => replaceDefault(db, of, partition, constraint));
  return isDone ? partition.name : undefined;
}

/**
 * From the day of the first row to the next partition, or to the end of the last one ahead: were the constraint left by a
 * process that dies, it would refuse beats from there on.
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
  const later = (await listPartitions(db, of)).filter(({ fromMs }) => fromMs > firstMs);
  const toMs = Math.min(partitionAt(of, nowMs, of.ahead + 1).fromMs, ...later.map(({ fromMs }) => fromMs));
  return lastMs < toMs ? partitionOver(of, firstMs, toMs) : undefined;
}

/** Drops the constraints of runs that did not end, but not `kept`. */
async function dropConstraints(
  db: PartitionConnection,
  of: PartitionedTable,
  kept: string | undefined,
): Promise<void> {
  const { rows } = await db.query<{ name: string }>(
    `select conname as name from pg_constraint
     where conrelid = $1::regclass and contype = 'c' and conname is distinct from $2`,
    [`${of.table}_default`, kept],
  );
  for (const { name } of rows) {
    await withDefaultLocked(db, of, () =>
      db.query(`alter table ${of.table}_default drop constraint if exists ${name}`),
    );
  }
}

async function readConstraint(
  db: PartitionConnection,
  { table }: PartitionedTable,
  name: string,
): Promise<{ isValid: boolean } | undefined> {
  const { rows } = await db.query<{ is_valid: boolean }>(
    `select convalidated as is_valid from pg_constraint where conrelid = $1::regclass and conname = $2`,
    [`${table}_default`, name],
  );
  const [row] = rows;
  return row && { isValid: row.is_valid };
}

/** False when another process has done it: the default partition is a new one, without the constraint. */
async function replaceDefault(
  db: PartitionConnection,
  of: PartitionedTable,
  partition: Partition,
  constraint: string,
): Promise<boolean> {
  const { table } = of;
  const { name } = partition;
  if (!(await readConstraint(db, of, constraint))?.isValid) return false;
  await db.query(`alter table ${table} detach partition ${table}_default`);
  await db.query(`alter table ${table}_default rename to ${name}`);
  await db.query(`create table ${table}_default (like ${table} including all)`);
  await db.query(`alter table ${table} attach partition ${table}_default default`);
  await db.query(`alter table ${table} attach partition ${name} for values ${boundsOf(partition)}`);
  await db.query(`alter table ${name} drop constraint ${constraint}`);
  return true;
}

/** Rows in the default partition, counted up to 100,000. Any row there is a fault (docs/operations.md). */
export async function countDefaultRows(db: Queryable, { table }: PartitionedTable): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::integer as count from (select from ${table}_default limit 100000) as r`,
  );
  return rows[0]?.count ?? 0;
}

/** Deletes rows of the default partition that are as old as dropped partitions; at most `limit`. Returns how many. */
export async function deleteOldDefaultRows(
  db: Queryable,
  { table, column, keepDays }: PartitionedTable,
  limit: number,
): Promise<number> {
  const { rowCount } = await db.query(
    `delete from ${table}_default where ctid = any (array(
       select ctid from ${table}_default where ${column} < clock_timestamp() - $1 * interval '1 day' limit $2))`,
    [keepDays, limit],
  );
  return rowCount ?? 0;
}
