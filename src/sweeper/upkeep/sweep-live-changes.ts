// Deletes changes of live rows that no cursor of the status feed needs any more (store/monitors/live-changes.ts).
import { deleteOldChanges } from '../../store/monitors/live-changes.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

const BATCH = 10_000;

/** One bounded statement. */
export async function sweepLiveChanges({
  pool,
  metrics,
}: Pick<JobDeps, 'pool' | 'metrics'>): Promise<RunResult> {
  const count = await deleteOldChanges(pool, BATCH);
  if (count > 0) metrics.rowsRetired.inc({ what: 'live_changes' }, count);
  return count >= BATCH ? 'more' : 'idle';
}
