// Partitions of history by time: created ahead, dropped when their time is over. The default partition takes rows
// without a partition; they move when their partition is created. Bounds are UTC.
import type { ClientBase } from 'pg';
import { toTime } from '../../domain/timestamp.ts';
import { fromMillis, wholeMillis } from './moments.ts';
import type { Queryable } from './pool.ts';

export interface PartitionedTable {
  table: 'observations' | 'observation_buckets';
  column: 'received_at' | 'bucket_start';
  unit: 'day' | 'month';
  /** Partitions after the current one. */
  ahead: number;
  /** Days after which a partition is dropped. */
  keepDays: number;
}

/** One connection (a pool has no `escapeIdentifier`) without a transaction: each partition is its own transaction. */
export type PartitionConnection = Pick<ClientBase, 'query' | 'escapeIdentifier'>;

/** docs/contract/beats.md. */
export const PARTITIONED_TABLES: readonly PartitionedTable[] = [
  { table: 'observations', column: 'received_at', unit: 'day', ahead: 7, keepDays: 30 },
  { table: 'observation_buckets', column: 'bucket_start', unit: 'month', ahead: 2, keepDays: 400 },
];

interface Partition {
  name: string;
  /** Inclusive. */
  fromMs: number;
  /** Exclusive. */
  toMs: number;
}

/** The partition that holds `atMs`, or the `offset`th after it. */
export function partitionAt({ table, unit }: PartitionedTable, atMs: number, offset = 0): Partition {
  const at = new Date(atMs);
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
  const start = (index: number) =>
    unit === 'day' ? Date.UTC(year, month, day + index) : Date.UTC(year, month + index, 1);
  const fromMs = start(offset);
  const digits = unit === 'day' ? 10 : 7;
  const suffix = toTime(fromMs).slice(0, digits).replaceAll('-', '');
  return { name: `${table}_${suffix}`, fromMs, toMs: start(offset + 1) };
}

async function readMs(db: PartitionConnection, timestamp: string): Promise<number> {
  // As text, because the connection of a migration has no parser for bigint.
  const { rows } = await db.query<{ ms: string }>(`select ${wholeMillis(timestamp)}::text as ms`);
  const row = rows[0];
  if (!row) throw new Error('The database answered without a time.');
  return Number(row.ms);
}

/** Creates the current partition and those ahead if they do not exist. Returns the names of the new ones. */
export async function createPartitions(db: PartitionConnection, of: PartitionedTable): Promise<string[]> {
  const nowMs = await readMs(db, 'clock_timestamp()');
  const created: string[] = [];
  const present = new Set((await listTables(db, of)).map(({ name }) => name));
  for (let offset = 0; offset <= of.ahead; offset += 1) {
    const partition = partitionAt(of, nowMs, offset);
    if (!present.has(partition.name) && (await createPartition(db, of, partition)))
      created.push(partition.name);
  }
  return created;
}

/**
 * ATTACH and not PARTITION OF, which would lock the parent against every beat. Attaching locks the default partition
 * only, to check that none of its rows belongs here. False when another process has created it: the creator of
 * partitions locks the default one in a mode that excludes other creators and no beat, and checks again under that
 * lock.
 */
async function createPartition(
  db: PartitionConnection,
  of: PartitionedTable,
  partition: Partition,
): Promise<boolean> {
  const { table } = of;
  const { name } = partition;
  const bounds = `from ('${toTime(partition.fromMs)}') to ('${toTime(partition.toMs)}')`;
  await db.query('begin');
  try {
    await db.query(`lock table ${table}_default in share update exclusive mode`);
    const isMade = (await listTables(db, of)).some((made) => made.name === name);
    if (!isMade) {
      await db.query(`create table ${name} (like ${table} including all)`);
      await moveFromDefault(db, of, partition);
      await db.query(`set local lock_timeout = '2s'`);
      await db.query(`lock table ${table}_default in access exclusive mode`);
      // Rows that arrived between the first move and the lock.
      await moveFromDefault(db, of, partition);
      await db.query(`alter table ${table} attach partition ${name} for values ${bounds}`);
    }
    await db.query('commit');
    return !isMade;
  } catch (error) {
    await db.query('rollback');
    throw error;
  }
}

async function moveFromDefault(
  db: Pick<ClientBase, 'query'>,
  { table, column }: PartitionedTable,
  { name, fromMs, toMs }: Partition,
): Promise<void> {
  await db.query(
    `with moved as (delete from ${table}_default where ${column} >= ${fromMillis('$1')} and ${column} < ${fromMillis('$2')} returning *)
     insert into ${name} select * from moved`,
    [fromMs, toMs],
  );
}

/** Drops partitions whose time is over; returns their names. A beat waits a moment at most, while one is detached. */
export async function dropPartitions(db: PartitionConnection, of: PartitionedTable): Promise<string[]> {
  const { table, keepDays } = of;
  const first = partitionAt(of, await readMs(db, `clock_timestamp() - interval '${keepDays} days'`));
  const dropped: string[] = [];
  for (const { name, isAttached } of await listTables(db, of)) {
    // Names of one table sort by time.
    if (name >= first.name) continue;
    if (isAttached) await detach(db, table, name);
    await db.query(`drop table ${name}`);
    dropped.push(name);
  }
  return dropped;
}

async function detach(db: PartitionConnection, table: string, name: string): Promise<void> {
  await db.query('begin');
  try {
    await db.query(`set local lock_timeout = '1s'`);
    await db.query(`alter table ${table} detach partition ${name}`);
    await db.query('commit');
  } catch (error) {
    await db.query('rollback');
    throw error;
  }
}

/** All partitions, also those that a crash left detached, oldest first; never the default one. */
async function listTables(
  db: Pick<ClientBase, 'query'>,
  { table, unit }: PartitionedTable,
): Promise<{ name: string; isAttached: boolean }[]> {
  const { rows } = await db.query<{ name: string; is_attached: boolean }>(
    `select c.relname as name, c.relispartition as is_attached from pg_class c
     join pg_class parent on parent.oid = $1::regclass and parent.relnamespace = c.relnamespace
     where c.relkind = 'r'`,
    [table],
  );
  const pattern = new RegExp(`^${table}_\\d{${unit === 'day' ? 8 : 6}}$`);
  return rows
    .filter(({ name }) => pattern.test(name))
    .map((row) => ({ name: row.name, isAttached: row.is_attached }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
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
