// The sweep of deadlines: wakes due monitors in batches, beginning where the last run ended. Any number of replicas do
// this at once and share the rows.
import type { Transition } from '../../domain/incident.ts';
import { type DueClaim, findDue, postponeWake } from '../../store/monitors/due-monitors.ts';
import { SWEEP_BUCKETS } from '../../store/monitors/live.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { Log } from '../../telemetry/log.ts';
import type { RunResult } from '../loop.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';
import {
  advanceWatermark,
  type BatchPace,
  beginLookback,
  FIRST_LOOKBACK,
  firstPace,
  type Lookback,
  leaveUnfinished,
  limitOf,
  nextPace,
  sinceMsOf,
} from './sweep-state.ts';
import { BatchFaultError, FAULT_DELAY_MS, type WokenBatch, wakeDueMonitors } from './wake-due-monitors.ts';

export interface DeadlineSweepOptions {
  pool: Pool;
  /** Floor of a learned cadence. */
  minimumIntervalMs: number;
  metrics: SweeperMetrics;
  log: Log;
  /** Called after a commit that may have put something into the outbox. */
  onTransitions?: () => void;
  /** Monitors in one transaction at most. */
  batchSize?: number;
}

export class DeadlineSweep {
  readonly #options: DeadlineSweepOptions;
  #pace: BatchPace;
  #lookback = FIRST_LOOKBACK;
  #firstBucket = Math.floor(Math.random() * SWEEP_BUCKETS);
  #lastRunAt: number | undefined;

  constructor(options: DeadlineSweepOptions) {
    this.#options = options;
    this.#pace = firstPace(options.batchSize);
  }

  /** When the last successful run ended, on the clock of `performance.now()`. */
  get lastRunAt(): number | undefined {
    return this.#lastRunAt;
  }

  /** Wakes one batch; two at once while there is more than one to do. */
  async run(): Promise<RunResult> {
    if (this.#lookback.watermarkMs === undefined) await this.#setWatermark();
    const startedAt = performance.now();
    const { lookback, state } = beginLookback(this.#lookback, startedAt);
    this.#lookback = state;
    const result = await this.#sweep(lookback, startedAt);
    if (result === 'more') this.#lookback = leaveUnfinished(this.#lookback, lookback);
    return result;
  }

  /**
   * The first lookback is from the beginning. Where that takes too long (an old snapshot elsewhere), the others see at
   * least what becomes due from now on.
   */
  async #setWatermark(): Promise<void> {
    // A poll for what comes after all moments returns the time, and reads no entry of the index.
    const span = await findDue(this.#options.pool, Number.MAX_SAFE_INTEGER);
    this.#lookback = advanceWatermark(FIRST_LOOKBACK, span);
  }

  async #sweep(lookback: Lookback, startedAt: number): Promise<RunResult> {
    const sinceMs = sinceMsOf(this.#lookback, lookback);
    if (this.#pace.mode === 'polling') {
      const { isDue, ...span } = await findDue(this.#options.pool, sinceMs);
      if (!isDue) {
        this.#lastRunAt = performance.now();
        this.#report({ ...span, claimed: 0, transitions: [], faults: [] }, 0);
        this.#lookback = advanceWatermark(this.#lookback, span);
        return 'idle';
      }
    }
    const limit = limitOf(this.#pace);
    const claims = this.#nextClaims(limit, sinceMs);
    const batches = await this.#wakeAll(claims).catch((error: unknown) => {
      const { size } = this.#pace;
      this.#pace = nextPace(this.#pace, { type: 'failed' });
      // Perhaps the batch was too large: a smaller one is tried before another lookback.
      if (this.#pace.size !== size) this.#lookback = leaveUnfinished(this.#lookback, lookback);
      throw error;
    });
    this.#lastRunAt = performance.now();
    // The database refused a batch: the next one is smaller, or leaves the row at fault out.
    if (batches.length < claims.length) return 'more';
    const durationMs = this.#lastRunAt - startedAt;
    for (const batch of batches) this.#report(batch, durationMs);
    const drained = batches.find(({ claimed }) => claimed < limit);
    this.#pace = nextPace(this.#pace, drained ? { type: 'drained' } : { type: 'filled', durationMs });
    if (!drained) return 'more';
    // A batch that is not full left nothing over, in any bucket, up to its moment.
    this.#lookback = advanceWatermark(this.#lookback, drained);
    return 'idle';
  }

  #nextClaims(limit: number, sinceMs: number | undefined): DueClaim[] {
    const { mode } = this.#pace;
    // While a row at fault is isolated the claims begin at one bucket, so that they meet it again.
    if (mode === 'isolating') return [{ limit, sinceMs, firstBucket: this.#firstBucket }];
    this.#firstBucket = (this.#firstBucket + 1) % SWEEP_BUCKETS;
    const opposite = (this.#firstBucket + SWEEP_BUCKETS / 2) % SWEEP_BUCKETS;
    const firstBuckets = mode === 'draining' ? [this.#firstBucket, opposite] : [this.#firstBucket];
    return firstBuckets.map((firstBucket) => ({ limit, sinceMs, firstBucket }));
  }

  /** Returns no batch for a claim that the database refused for its rows. */
  async #wakeAll(claims: readonly DueClaim[]): Promise<WokenBatch[]> {
    const { pool, minimumIntervalMs } = this.#options;
    const results = await Promise.allSettled(
      claims.map((claim) => wakeDueMonitors(pool, minimumIntervalMs, claim)),
    );
    const batches: WokenBatch[] = [];
    for (const result of results) {
      if (result.status === 'fulfilled') batches.push(result.value);
      else if (result.reason instanceof BatchFaultError) await this.#isolate(result.reason);
      else throw result.reason;
    }
    return batches;
  }

  async #isolate({ rows, cause }: BatchFaultError): Promise<void> {
    const { pool, log } = this.#options;
    const [row, ...others] = rows;
    if (row && others.length === 0) {
      const { projectId, monitorKey } = row;
      log.error(
        { err: cause, projectId, monitorKey },
        'A due monitor could not be written. The sweep tries it again in about a minute.',
      );
      await postponeWake(pool, row, FAULT_DELAY_MS);
    }
    this.#pace = nextPace(this.#pace, { type: 'refused', rows: rows.length });
  }

  #report(batch: WokenBatch, durationMs: number): void {
    const { metrics, log, onTransitions } = this.#options;
    metrics.monitorsWoken.inc(batch.claimed);
    metrics.dueLag.set(
      batch.earliestMs === undefined ? 0 : Math.max(0, batch.nowMs - batch.earliestMs) / 1000,
    );
    if (batch.horizonMs !== undefined) {
      metrics.clockLag.set(Math.max(0, batch.nowMs - batch.horizonMs) / 1000);
    }
    for (const { monitorKey, error } of batch.faults) {
      log.error(
        { err: error, monitorKey },
        'A due monitor could not be woken. It will be tried again in a minute.',
      );
    }
    // The database's clock was read when the batch began.
    const committedMs = batch.nowMs + durationMs;
    for (const transition of batch.transitions) reportOpening(metrics, transition, committedMs);
    if (batch.transitions.length > 0) onTransitions?.();
  }
}

function reportOpening(metrics: SweeperMetrics, { isNew, incident }: Transition, committedMs: number): void {
  if (!isNew) return;
  metrics.incidentsOpened.inc({ kind: incident.kind });
  if (incident.kind !== 'missed_deadline' || incident.deadlineMs === undefined) return;
  metrics.detectionLateness.observe(Math.max(0, committedMs - incident.deadlineMs) / 1000);
}
