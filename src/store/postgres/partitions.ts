// Partitions of history by time: created ahead, dropped when their time is over. The default partition takes rows
// without a partition (default-partition.ts). Bounds are UTC. Tables are changed by functions of the schema, which work
// for a role without the right to change tables too (docs/operations.md).
import type { ClientBase } from 'pg';
import { KEPT_DAYS } from '../../domain/retention.ts';
import { toTime } from '../../domain/timestamp.ts';
import { isDistributed } from './engine.ts';
import { wholeMillis } from './moments.ts';

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

export const OBSERVATIONS: PartitionedTable = {
  table: 'observations',
  column: 'received_at',
  unit: 'day',
  ahead: 7,
  keepDays: KEPT_DAYS.observations,
};

/** docs/contract/beats.md. */
export const PARTITIONED_TABLES: readonly PartitionedTable[] = [
  OBSERVATIONS,
  {
    table: 'observation_buckets',
    column: 'bucket_start',
    unit: 'month',
    ahead: 2,
    keepDays: KEPT_DAYS.observationBuckets,
  },
];

export interface Partition {
  /** The functions of the schema take the bounds from it. */
  name: string;
  /** Inclusive. */
  fromMs: number;
  /** Exclusive. */
  toMs: number;
}

/** What was done, and what went wrong beside it: no partition waits for another one. */
export interface PartitionChanges {
  names: string[];
  failures: unknown[];
}

/** While we wait for a lock, or hold it, beats may wait too: they have 8 s. */
const LOCK_TIMEOUT_MS = 2_000;
const ATTACH_TIMEOUT_MS = 3_000;
const DETACH_LOCK_TIMEOUT_MS = 1_000;

/** The partition that holds `atMs`, or the `offset`th after it. */
export function partitionAt(of: PartitionedTable, atMs: number, offset = 0): Partition {
  const fromMs = startAt(of, atMs, offset);
  return { name: `${of.table}_${suffixOf(of, fromMs)}`, fromMs, toMs: startAt(of, atMs, offset + 1) };
}

/** The partition of all days, or months, from that of `fromMs` to the one that ends at `toMs`. */
export function partitionOver(of: PartitionedTable, fromMs: number, toMs: number): Partition {
  const first = partitionAt(of, fromMs);
  const last = partitionAt(of, toMs - 1);
  const name = first.name === last.name ? first.name : `${first.name}_${suffixOf(of, last.fromMs)}`;
  return { name, fromMs: first.fromMs, toMs: last.toMs };
}

function startAt({ unit }: PartitionedTable, atMs: number, offset: number): number {
  const at = new Date(atMs);
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
  return unit === 'day' ? Date.UTC(year, month, day + offset) : Date.UTC(year, month + offset, 1);
}

function suffixOf({ unit }: PartitionedTable, startMs: number): string {
  return toTime(startMs)
    .slice(0, unit === 'day' ? 10 : 7)
    .replaceAll('-', '');
}

export async function readMs(db: PartitionConnection, timestamp: string): Promise<number> {
  // As text, because the connection of a migration has no parser for bigint.
  const { rows } = await db.query<{ ms: string }>(`select ${wholeMillis(timestamp)}::text as ms`);
  const row = rows[0];
  if (!row) throw new Error('The database answered without a time.');
  return Number(row.ms);
}

/** Creates the current partition and those ahead where there is none. */
export async function createPartitions(
  db: PartitionConnection,
  of: PartitionedTable,
): Promise<PartitionChanges> {
  const nowMs = await readMs(db, 'clock_timestamp()');
  const offsets = Array.from({ length: of.ahead + 1 }, (_, offset) => offset);
  const made = await listPartitions(db, of);
  const missing = offsets
    .map((offset) => partitionAt(of, nowMs, offset))
    .filter((wanted) => !made.some((one) => covers(one, wanted)));
  return await changeEach(missing, (partition) => createPartition(db, of, partition));
}

const covers = (one: Partition, other: Partition) => one.fromMs <= other.fromMs && one.toMs >= other.toMs;

async function changeEach<Of extends Partition>(
  partitions: readonly Of[],
  change: (partition: Of) => Promise<boolean>,
): Promise<PartitionChanges> {
  const names: string[] = [];
  const failures: unknown[] = [];
  for (const partition of partitions) {
    try {
      if (await change(partition)) names.push(partition.name);
    } catch (error) {
      failures.push(error);
    }
  }
  return { names, failures };
}

/**
 * Attaching locks the default partition only, to check that none of its rows belongs here: a beat that belongs there
 * waits, so the check has a time limit. False when another process has created it.
 */
async function createPartition(
  db: PartitionConnection,
  of: PartitionedTable,
  partition: Partition,
): Promise<boolean> {
  return await withDefaultLocked(db, of, async () => {
    if ((await listPartitions(db, of)).some((made) => covers(made, partition))) return false;
    await db.query(`set local statement_timeout = ${ATTACH_TIMEOUT_MS}`);
    await db.query('select add_partition($1, $2)', [of.table, partition.name]);
    return true;
  });
}

/**
 * Runs `work` in a transaction that locks the default partition in a mode that excludes others who change partitions, and
 * no beat. `work` looks again at what there is. Locks that beats notice have a time limit from there on.
 */
export async function withDefaultLocked<Result>(
  db: PartitionConnection,
  { table }: PartitionedTable,
  work: () => Promise<Result>,
): Promise<Result> {
  await db.query('begin');
  try {
    if (isDistributed()) await lockAtCoordinator(db, table);
    else await db.query(lockDefault(table));
    await db.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    const result = await work();
    await db.query('commit');
    return result;
  } catch (error) {
    await db.query('rollback');
    throw error;
  }
}

const lockDefault = (table: string) => `lock table ${table}_default in share update exclusive mode`;

/**
 * The functions of the schema connect to the machines as the owner of the tables, and would wait for locks that this role has
 * there. Everybody who changes partitions meets at the coordinator.
 */
async function lockAtCoordinator(db: Pick<PartitionConnection, 'query'>, table: string): Promise<void> {
  await db.query('set local citus.enable_ddl_propagation = off');
  await db.query(lockDefault(table));
  await db.query('set local citus.enable_ddl_propagation = on');
}

/** SQL: where the rows of a table begin that are kept: a whole day. Observations are also kept until they are summed up. */
export function keptFrom({ table, keepDays }: PartitionedTable): string {
  const from = `date_trunc('day', clock_timestamp() - ${keepDays} * interval '24 hours', 'UTC')`;
  return table === 'observations' ? `(select least(${from}, day) from observation_sums)` : from;
}

/**
 * Drops partitions whose time is over. A beat waits a moment at most, while one is detached. While observations are summed
 * up the next run does it.
 */
export async function dropPartitions(
  db: PartitionConnection,
  of: PartitionedTable,
): Promise<PartitionChanges> {
  const { table } = of;
  const beforeMs = await readMs(db, keptFrom(of));
  const old = (await listPartitions(db, of)).filter(({ toMs }) => toMs <= beforeMs);
  return await changeEach(old, async ({ name, isAttached }) => {
    if (isAttached && !(await detach(db, table, name))) return false;
    await db.query('select drop_partition($1, $2)', [table, name]);
    return true;
  });
}

/** False while a step of the sums is under way: a beat would wait behind us, and we for the step. */
async function detach(db: PartitionConnection, table: string, name: string): Promise<boolean> {
  await db.query('begin');
  try {
    const { rowCount } = await db.query('select from observation_sums for update skip locked');
    if (rowCount) {
      await db.query(`set local lock_timeout = ${DETACH_LOCK_TIMEOUT_MS}`);
      await db.query('select detach_partition($1, $2)', [table, name]);
    }
    await db.query('commit');
    return Boolean(rowCount);
  } catch (error) {
    await db.query('rollback');
    throw error;
  }
}

/** All partitions, also those that a crash left detached, oldest first; never the default one. */
export async function listPartitions(
  db: PartitionConnection,
  of: PartitionedTable,
): Promise<(Partition & { isAttached: boolean })[]> {
  const { rows } = await db.query<{ name: string; is_attached: boolean }>(
    `select c.relname as name, c.relispartition as is_attached from pg_class c
     join pg_class parent on parent.oid = $1::regclass and parent.relnamespace = c.relnamespace
     where c.relkind = 'r'`,
    [of.table],
  );
  const digits = of.unit === 'day' ? 8 : 6;
  const pattern = new RegExp(`^${of.table}_(\\d{${digits}})(?:_(\\d{${digits}}))?$`);
  return rows
    .flatMap(({ name, is_attached: isAttached }) => {
      const [, first, last = first] = pattern.exec(name) ?? [];
      if (first === undefined || last === undefined) return [];
      return { ...partitionOver(of, startOf(first), startOf(last) + 1), name, isAttached };
    })
    .sort((a, b) => a.fromMs - b.fromMs);
}

/** The start of the day, or month, of a name. */
function startOf(suffix: string): number {
  const [year, month, day] = [suffix.slice(0, 4), suffix.slice(4, 6), suffix.slice(6)].map(Number);
  return Date.UTC(year ?? 0, (month ?? 1) - 1, day || 1);
}
