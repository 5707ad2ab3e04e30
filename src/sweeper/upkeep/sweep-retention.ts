// Deletes rows whose time is over (store/upkeep/retention.ts says which, and after how long).
import { RETENTION_RULES } from '../../store/upkeep/retention.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

const BATCH = 1_000;

/** One bounded statement for each rule. */
export async function sweepRetention({ pool, metrics }: JobDeps): Promise<RunResult> {
  let hasMore = false;
  for (const { what, retire } of RETENTION_RULES) {
    const count = await retire(pool, BATCH);
    if (count > 0) metrics.rowsRetired.inc({ what }, count);
    hasMore ||= count >= BATCH;
  }
  return hasMore ? 'more' : 'idle';
}
