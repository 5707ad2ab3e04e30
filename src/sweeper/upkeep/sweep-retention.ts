// Deletes what is kept for a time only (store/upkeep/retention.ts says what, and for how long).
import type { Pool } from '../../store/postgres/pool.ts';
import { RETENTION_RULES } from '../../store/upkeep/retention.ts';
import type { RunResult } from '../loop.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';

const BATCH = 1_000;

/** One bounded statement for each rule. */
export async function sweepRetention(pool: Pool, metrics: SweeperMetrics): Promise<RunResult> {
  let hasMore = false;
  for (const { what, retire } of RETENTION_RULES) {
    const count = await retire(pool, BATCH);
    if (count > 0) metrics.rowsRetired.inc({ what }, count);
    hasMore ||= count >= BATCH;
  }
  return hasMore ? 'more' : 'idle';
}
