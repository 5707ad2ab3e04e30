// Ends the rests of monitors whose organization is active again. Any number of replicas do this at once and share the rows.
import { SERVED_STATES } from '../../domain/plan.ts';
import { findRestingProjects } from '../../store/monitors/resting-monitors.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { Log } from '../../telemetry/log.ts';
import type { RunResult } from '../loop.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';
import { wakeResting } from './wake-due-monitors.ts';

export interface RestSweepOptions {
  pool: Pool;
  /** Floor of a learned cadence. */
  minimumIntervalMs: number;
  metrics: SweeperMetrics;
  log: Log;
  /** Monitors in one transaction at most. */
  batchSize?: number;
}

/** In one run. */
const MOST_PROJECTS = 100;
/** A batch locks its rows, and a beat of any of them waits. */
const BATCH = 500;

/**
 * A batch of each project that has returned. What fails in one project is logged, holds up no other one and is tried again in
 * the next run. A run that ends anywhere leaves rows that rest: the next one finds them.
 */
export async function endRests(options: RestSweepOptions): Promise<RunResult> {
  const { pool, minimumIntervalMs, metrics, log, batchSize: limit = BATCH } = options;
  const projects = await findRestingProjects(pool, SERVED_STATES, MOST_PROJECTS);
  let isMore = projects.length === MOST_PROJECTS;
  let woken = 0;
  for (const projectId of projects) {
    try {
      const { claimed, faults, isDrained } = await wakeResting(pool, { projectId, limit, minimumIntervalMs });
      for (const { monitorKey, error } of faults)
        log.error({ err: error, monitorKey }, 'The rest of a monitor could not be ended. It is tried again.');
      metrics.monitorsWoken.inc(claimed);
      woken += claimed - faults.length;
      isMore ||= !isDrained;
    } catch (err) {
      log.error({ err, projectId }, 'The rests of a project could not be ended. They are tried again.');
    }
  }
  // What fails, or is held by others, would come again at once.
  return isMore && woken > 0 ? 'more' : 'idle';
}
