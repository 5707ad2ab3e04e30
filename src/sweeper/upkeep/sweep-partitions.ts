// Partitions of history: creates them ahead, drops them when their time is over, and warns when rows have none.
import {
  countDefaultRows,
  createPartitions,
  deleteOldDefaultRows,
  dropPartitions,
  PARTITIONED_TABLES,
} from '../../store/postgres/partitions.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

const BATCH = 10_000;

/** Brings the partitions of every table up to date. */
export async function sweepPartitions({ pool, metrics, log }: JobDeps): Promise<RunResult> {
  let hasMore = false;
  const connection = await pool.connect();
  let broken: Error | undefined;
  try {
    for (const table of PARTITIONED_TABLES) {
      const created = await createPartitions(connection, table);
      const dropped = await dropPartitions(connection, table);
      const deleted = await deleteOldDefaultRows(connection, table, BATCH);
      if (created.length > 0 || dropped.length > 0)
        log.info({ created, dropped }, 'Partitions were changed.');
      metrics.rowsRetired.inc({ what: `${table.table}_partitions` }, dropped.length);
      metrics.rowsRetired.inc({ what: `${table.table}_default` }, deleted);
      hasMore ||= deleted >= BATCH;
    }
  } catch (error) {
    broken = error as Error;
    throw error;
  } finally {
    connection.release(broken);
  }
  return hasMore ? 'more' : 'idle';
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
