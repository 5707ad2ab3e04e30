// The sweep of deadlines: wakes due monitors in batches, beginning where the last run ended. Any number of replicas do
// this at once and share the rows.
import { type DueClaim, findDue, postponeWake } from '../../store/monitors/due-monitors.ts';
import { SWEEP_BUCKETS } from '../../store/monitors/live.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { RunResult } from '../loop.ts';
import { type BatchListeners, reportBatch } from './report-batch.ts';
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
import {
  BatchFaultError,
  type BatchOptions,
  FAULT_DELAY_MS,
  type WokenBatch,
  wakeDueMonitors,
} from './wake-due-monitors.ts';

export interface DeadlineSweepOptions extends BatchListeners {
  pool: Pool;
  /** Floor of a learned cadence. */
  minimumIntervalMs: number;
  /** Monitors in one transaction at most. */
  batchSize?: number;
  /** When it aborts, a run begins no further batch. */
  signal?: AbortSignal;
}

/** While one batch is decided here, Postgres writes the others on a core or two. At most half of a small pool. */
const LANES = 3;
const lanesOf = ({ options: { max } }: Pool) => Math.min(LANES, Math.floor(max / 2));
/** Odd, so that the claims begin at every bucket in turn. */
const BUCKET_STEP = 21;

/** One run: what its lanes share. */
interface Sweep {
  readonly sinceMs: number | undefined;
  readonly lanes: Promise<void>[];
  /** Lanes begin no further batch. */
  isOver: boolean;
  /** The batch that was not full. */
  drained?: WokenBatch;
  failure?: { error: unknown };
  refusal?: { fault: BatchFaultError; claim: DueClaim };
}

export class DeadlineSweep {
  readonly #options: DeadlineSweepOptions;
  #pace: BatchPace;
  /** A full batch has shown how large the next one may be. */
  #isMeasured = false;
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

  /**
   * Wakes batches until nothing is due. Lanes that wait for no other one claim, decide and write them, so that this
   * process decides one batch while Postgres writes others.
   */
  async run(): Promise<RunResult> {
    if (this.#lookback.watermarkMs === undefined) await this.#setWatermark();
    const startedAt = performance.now();
    const { lookback, state } = beginLookback(this.#lookback, startedAt);
    this.#lookback = state;
    const result = await this.#sweep(lookback);
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

  async #sweep(lookback: Lookback): Promise<RunResult> {
    const sinceMs = sinceMsOf(this.#lookback, lookback);
    if (this.#pace.mode === 'polling') {
      const { isDue, ...span } = await findDue(this.#options.pool, sinceMs);
      if (!isDue) {
        this.#lastRunAt = performance.now();
        this.#report({ ...span, claimed: 0, isDrained: true, transitions: [], faults: [] }, 0);
        this.#lookback = advanceWatermark(this.#lookback, span);
        return 'idle';
      }
    }
    const sweep: Sweep = { sinceMs, lanes: [], isOver: false };
    this.#startLane(sweep);
    // A lane may start another one as long as it runs.
    for (const lane of sweep.lanes) await lane;
    const { failure, refusal, drained } = sweep;
    if (refusal) await this.#isolate(refusal);
    if (failure) {
      const { size } = this.#pace;
      this.#pace = nextPace(this.#pace, { type: 'failed' });
      // Perhaps the batch was too large: a smaller one is tried before another lookback.
      if (this.#pace.size !== size) this.#lookback = leaveUnfinished(this.#lookback, lookback);
      throw failure.error;
    }
    // The database refused a batch: the next one is smaller, or leaves the row at fault out.
    if (refusal || !drained) return 'more';
    // A batch that is not full left nothing over, in any bucket, up to its moment, but for the rows of the other lanes. If
    // one of those is run again just then, the longer looks find what it leaves.
    this.#lookback = advanceWatermark(this.#lookback, drained);
    return 'idle';
  }

  #startLane(sweep: Sweep): void {
    const fail = (error: unknown) => {
      sweep.isOver = true;
      sweep.failure ??= { error };
    };
    sweep.lanes.push(this.#runLane(sweep).catch(fail));
  }

  async #runLane(sweep: Sweep): Promise<void> {
    const { pool, minimumIntervalMs, signal } = this.#options;
    // What is due may be more than one batch. One lane alone finds out how fast the machine is, or which row is at fault.
    const onFull = () => {
      const isAlone = !this.#isMeasured || this.#pace.mode === 'isolating';
      if (!isAlone && !sweep.isOver && sweep.lanes.length < lanesOf(pool)) this.#startLane(sweep);
    };
    while (!sweep.isOver) {
      const startedAt = performance.now();
      const claim = this.#nextClaim(sweep);
      const batch = await this.#wake(sweep, { claim, minimumIntervalMs, onFull, signal });
      if (!batch) return;
      this.#lastRunAt = performance.now();
      const durationMs = this.#lastRunAt - startedAt;
      this.#report(batch, durationMs);
      // Another lane found the end, or a fault: what it says of the pace is newer.
      if (sweep.isOver) return;
      const { isDrained } = batch;
      this.#pace = nextPace(
        this.#pace,
        isDrained ? { type: 'drained' } : { type: 'filled', limit: claim.limit, durationMs },
      );
      this.#isMeasured ||= !isDrained;
      if (isDrained) sweep.drained = batch;
      sweep.isOver = isDrained || signal?.aborted === true;
    }
  }

  #nextClaim({ sinceMs }: Sweep): DueClaim {
    // While a row at fault is isolated the claims begin at one bucket, so that they meet it again. Lanes begin far apart.
    if (this.#pace.mode !== 'isolating') this.#firstBucket += BUCKET_STEP;
    return { limit: limitOf(this.#pace), sinceMs, firstBucket: this.#firstBucket % SWEEP_BUCKETS };
  }

  /** Returns no batch for a claim that the database refused for its rows: lanes begin no further one. */
  async #wake(sweep: Sweep, options: BatchOptions): Promise<WokenBatch | undefined> {
    const startedAt = performance.now();
    try {
      const batch = await wakeDueMonitors(this.#options.pool, options);
      if (!batch.failure) return batch;
      this.#report(batch, performance.now() - startedAt);
      throw batch.failure.error;
    } catch (error) {
      if (!(error instanceof BatchFaultError)) throw error;
      sweep.isOver = true;
      sweep.refusal ??= { fault: error, claim: options.claim };
      return undefined;
    }
  }

  async #isolate({ fault: { rows, cause }, claim }: NonNullable<Sweep['refusal']>): Promise<void> {
    const { pool, faults } = this.#options;
    // Other lanes have begun at other buckets since.
    this.#firstBucket = claim.firstBucket;
    const [row, ...others] = rows;
    if (row && others.length === 0) {
      const { projectId, monitorKey } = row;
      const message = 'A due monitor could not be written. It is tried again, and logged once an hour.';
      faults.record({ projectId, monitorKey }, cause, message);
      await postponeWake(pool, row, FAULT_DELAY_MS);
    }
    this.#pace = nextPace(this.#pace, { type: 'refused', rows: rows.length });
  }

  #report(batch: WokenBatch, durationMs: number): void {
    const { metrics } = this.#options;
    metrics.dueLag.set(
      batch.earliestMs === undefined ? 0 : Math.max(0, batch.nowMs - batch.earliestMs) / 1000,
    );
    if (batch.horizonMs !== undefined) {
      metrics.clockLag.set(Math.max(0, batch.nowMs - batch.horizonMs) / 1000);
    }
    reportBatch(this.#options, batch, durationMs);
  }
}
