// Partitions of history: creates them ahead, drops them when their time is over, and warns when rows have none.
import {
  convertDefault,
  countDefaultRows,
  deleteOldDefaultRows,
} from '../../store/postgres/default-partition.ts';
import {
  createPartitions,
  dropPartitions,
  PARTITIONED_TABLES,
  type PartitionConnection,
  type PartitionedTable,
} from '../../store/postgres/partitions.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

const BATCH = 10_000;

/**
 * Brings the partitions of every table up to date. A partition that cannot be created does not keep the old ones from
 * being dropped. Throws in the end what went wrong.
 */
export async function sweepPartitions(deps: JobDeps): Promise<RunResult> {
  const failures: unknown[] = [];
  let hasMore = false;
  for (const table of PARTITIONED_TABLES) {
    for (const task of [convertAndCreate, drop, deleteRows]) {
      try {
        const { failures: ofSome = [], isCut = false } = await task(deps, table);
        failures.push(...ofSome);
        hasMore ||= isCut;
      } catch (error) {
        failures.push(error);
      }
    }
  }
  if (failures.length > 0)
    throw new AggregateError(failures, 'Some partitions could not be created, dropped or emptied.');
  return hasMore ? 'more' : 'idle';
}

interface TaskResult {
  failures?: unknown[];
  /** There is more to do. */
  isCut?: boolean;
}

/**
 * Creates nothing beside a default partition that could not be converted: attaching reads all its rows, beats that belong
 * there wait meanwhile, and where it takes too long each further run would do the same. The default partition takes rows
 * of any day.
 */
async function convertAndCreate(deps: JobDeps, of: PartitionedTable): Promise<TaskResult> {
  await convert(deps, of);
  return await create(deps, of);
}

async function convert({ slowPool, log }: JobDeps, of: PartitionedTable): Promise<void> {
  const name = await onConnection(slowPool, (db) => convertDefault(db, of));
  if (name !== undefined)
    log.warn(
      { name },
      'Rows without a partition of their own are a partition now. Check that a sweeper runs.',
    );
}

async function create({ pool, log }: JobDeps, of: PartitionedTable): Promise<TaskResult> {
  const { names, failures } = await onConnection(pool, (db) => createPartitions(db, of));
  if (names.length > 0) log.info({ names }, 'Partitions were created.');
  return { failures };
}

async function drop({ pool, log, metrics }: JobDeps, of: PartitionedTable): Promise<TaskResult> {
  const { names, failures } = await onConnection(pool, (db) => dropPartitions(db, of));
  if (names.length > 0) log.info({ names }, 'Partitions were dropped. Their time was over.');
  metrics.rowsRetired.inc({ what: `${of.table}_partitions` }, names.length);
  return { failures };
}

async function deleteRows({ pool, metrics }: JobDeps, of: PartitionedTable): Promise<TaskResult> {
  const deleted = await deleteOldDefaultRows(pool, of, BATCH);
  metrics.rowsRetired.inc({ what: `${of.table}_default` }, deleted);
  return { isCut: deleted >= BATCH };
}

/** A connection at which something failed is closed: a transaction may be left open on it. */
async function onConnection<Result>(
  pool: Pool,
  work: (db: PartitionConnection) => Promise<Result>,
): Promise<Result> {
  const connection = await pool.connect();
  let broken: Error | undefined;
  try {
    return await work(connection);
  } catch (error) {
    broken = error as Error;
    throw error;
  } finally {
    connection.release(broken);
  }
}

/** Every replica counts the rows itself. Under a lease, a replica would show a count from when it last held the lease. */
export async function watchDefaultPartitions({ pool, metrics, log }: JobDeps): Promise<RunResult> {
  for (const table of PARTITIONED_TABLES) {
    const rows = await countDefaultRows(pool, table);
    metrics.defaultPartitionRows.set({ table: table.table }, rows);
    if (rows > 0)
      log.warn(
        { table: table.table, rows },
        'Rows have no partition of their own. Check that the sweeper creates partitions ahead.',
      );
  }
  return 'idle';
}
