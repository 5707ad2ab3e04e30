// Ends the rests of monitors whose organization is active again. Any number of replicas do this at once and share the rows.
import { SERVED_STATES } from '../../domain/plan.ts';
import { findRestingProjects } from '../../store/monitors/resting-monitors.ts';
import { isDatabaseUnavailable, isTimedOut } from '../../store/postgres/database-error.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { RunResult } from '../loop.ts';
import { type BatchListeners, reportBatch } from './report-batch.ts';
import { BatchFaultError, wakeResting } from './wake-due-monitors.ts';

export interface RestSweepOptions extends BatchListeners {
  pool: Pool;
  /** Floor of a learned cadence. */
  minimumIntervalMs: number;
  /** Monitors in one transaction at most. */
  batchSize?: number;
  /** Projects with monitors that rest, in one statement at most. */
  looks?: number;
  /** When it aborts, a run begins no further batch. */
  signal?: AbortSignal;
}

/** Of a project in a run. */
interface Progress {
  /** Monitors whose rest is over. */
  woken: number;
  /** No other one rests, but for those at fault and those that others hold. */
  isDrained: boolean;
}

/** Some ms of a statement, however many organizations are suspended. */
const LOOKS = 1_000;
/** A batch locks its rows, and a beat of any of them waits. */
const BATCH = 500;

/**
 * A batch of each project that has returned. What fails in one project is logged, holds up no other one and is tried again in
 * the next run; a database that is away ends the run. A run that ends anywhere leaves rows that rest: the next one finds them.
 */
export async function endRests(options: RestSweepOptions): Promise<RunResult> {
  const { pool, looks = LOOKS, signal } = options;
  let hasMore = false;
  let afterId: string | undefined;
  do {
    const page = await findRestingProjects(pool, SERVED_STATES, { afterId, looks });
    for (const projectId of page.projectIds) {
      if (signal?.aborted) return 'idle';
      const { woken, isDrained } = await tryToEndRests(options, projectId);
      // What fails, or is held by others, would come again at once.
      hasMore ||= !isDrained && woken > 0;
    }
    afterId = page.lastId;
  } while (afterId !== undefined);
  return hasMore ? 'more' : 'idle';
}

async function tryToEndRests(options: RestSweepOptions, projectId: string): Promise<Progress> {
  try {
    return await endRestsOf(options, projectId);
  } catch (err) {
    // A batch of this project alone may take too long.
    if (isDatabaseUnavailable(err) && !isTimedOut(err)) throw err;
    const message =
      'The rests of a project could not be ended. They are tried again, and logged once an hour.';
    options.faults.record({ projectId }, err, message);
    return { woken: 0, isDrained: false };
  }
}

/**
 * One batch of the project, or more while monitors at fault are met: a fault holds up no other monitor. The rows of a batch
 * that the database refuses are woken one by one.
 */
async function endRestsOf(
  { pool, minimumIntervalMs, batchSize = BATCH, signal, ...listeners }: RestSweepOptions,
  projectId: string,
): Promise<Progress> {
  let woken = 0;
  let afterKey: string | undefined;
  /** So many rows are still to be woken one by one. */
  let alone = 0;
  let hasFault = false;
  do {
    const limit = alone > 0 ? 1 : batchSize;
    if (alone <= 0) hasFault = false;
    const startedAt = performance.now();
    try {
      const batch = await wakeResting(pool, { projectId, afterKey, limit }, minimumIntervalMs);
      reportBatch(listeners, batch, performance.now() - startedAt);
      woken += batch.claimed - batch.faults.length;
      if (batch.isDrained) return { woken, isDrained: true };
      hasFault ||= batch.faults.length > 0;
      afterKey = batch.lastKey;
      alone -= 1;
    } catch (error) {
      if (!(error instanceof BatchFaultError)) throw error;
      hasFault = true;
      if (limit > 1) alone = error.rows.length;
      else {
        afterKey = error.rows[0]?.monitorKey;
        const message =
          'The rest of a monitor could not be ended. It is tried again, and logged once an hour.';
        listeners.faults.record({ projectId, monitorKey: afterKey }, error.cause, message);
        alone -= 1;
      }
    }
  } while ((alone > 0 || hasFault) && !signal?.aborted);
  return { woken, isDrained: false };
}
