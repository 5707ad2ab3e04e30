// The sweep of deadlines: wakes due monitors in batches, beginning where the last round ended. Any number of replicas
// do this at once and share the rows.
import type { Transition } from '../../domain/incident.ts';
import { type DueClaim, type DueSpan, findDue, postponeWake } from '../../store/monitors/due-monitors.ts';
import { SWEEP_BUCKETS } from '../../store/monitors/live.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { Log } from '../../telemetry/log.ts';
import type { RunResult } from '../loop.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';
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

const BATCH_SIZE = 2_000;
/**
 * A batch locks its rows, and a beat of any of them waits, with all that came with it. Just after an outage everything
 * is due and every sender comes, on a machine that may be slow: a batch is as large as this time allows.
 */
const HOLD_MS = 500;
/** It tells how fast the machine is. */
const FIRST_BATCH = 250;
const SMALLEST_BATCH = 50;
/**
 * How far back a round looks from where the last one ended, the longest first, and how often. Longer looks find what a
 * shorter one could not see: a row that somebody held for a moment, or a moment that was past when it was committed.
 * They are dear while an old snapshot elsewhere keeps what beats leave in the index (docs/adr/0002).
 */
const LOOKS = [
  { backMs: undefined, everyMs: 60_000 },
  { backMs: 30_000, everyMs: 5_000 },
  { backMs: 1_000, everyMs: 0 },
];

interface Look {
  /** Undefined: to the beginning. */
  backMs?: number;
}

export class DeadlineSweep {
  readonly #options: DeadlineSweepOptions;
  /** What takes about HOLD_MS. */
  #batchSize: number;
  /** Halved while a fault in some row is being cornered. */
  #limit: number;
  #firstBucket = Math.floor(Math.random() * SWEEP_BUCKETS);
  /** Everything up to here was looked at; before the first look: where this began. */
  #watermarkMs: number | undefined;
  /** When each of LOOKS was begun last. */
  #lookedAt: number[] = LOOKS.map(() => Number.NEGATIVE_INFINITY);
  /** How far back the look under way goes: it lasts until nothing is left in it. */
  #look: Look | undefined;
  #lastRunAt: number | undefined;
  #isBehind = false;

  constructor(options: DeadlineSweepOptions) {
    this.#options = options;
    this.#batchSize = Math.min(FIRST_BATCH, this.#largestBatch);
    this.#limit = this.#batchSize;
  }

  get #largestBatch(): number {
    return this.#options.batchSize ?? BATCH_SIZE;
  }

  /** When the last round ended well, on the clock of `performance.now()`. */
  get lastRunAt(): number | undefined {
    return this.#lastRunAt;
  }

  /** One batch; two at once while there is more than one to do. */
  async run(): Promise<RunResult> {
    if (this.#watermarkMs === undefined) await this.#beginHere();
    const startedAt = performance.now();
    const look = this.#look ?? this.#chooseLook(startedAt);
    // A long look that takes too long must not keep the short ones from their turn.
    this.#look = undefined;
    const round = await this.#round(look, startedAt);
    if (round === 'more') this.#look = look;
    return round;
  }

  async #round(look: Look, startedAt: number): Promise<RunResult> {
    const limit = this.#limit;
    const sinceMs = this.#sinceMs(look.backMs);
    if (!this.#isBehind && limit === this.#batchSize) {
      const { isDue, ...span } = await findDue(this.#options.pool, sinceMs);
      if (!isDue) {
        this.#lastRunAt = performance.now();
        this.#show({ ...span, claimed: 0, transitions: [], faults: [] }, 0);
        this.#rest(span);
        return 'idle';
      }
    }
    const claims = this.#nextClaims(sinceMs);
    const batches = await this.#wakeAll(claims).catch((error: unknown) => {
      // Perhaps it was too much at once: less is tried before another look.
      if (this.#resize(this.#batchSize / 4)) this.#look = look;
      throw error;
    });
    this.#lastRunAt = performance.now();
    // A fault in some row: the next batch is smaller, or leaves that row out.
    if (batches.length < claims.length) return 'more';
    const durationMs = this.#lastRunAt - startedAt;
    for (const batch of batches) this.#show(batch, durationMs);
    this.#isBehind = batches.every(({ claimed }) => claimed >= limit);
    if (this.#isBehind) {
      // What was at fault may lie behind by now; a fault that is met again halves it again.
      if (limit < this.#batchSize) this.#limit = Math.min(limit * 2, this.#batchSize);
      else this.#pace(durationMs);
      return 'more';
    }
    this.#limit = this.#batchSize;
    // Nothing was left over by the batch that was not full, in any bucket, up to its moment.
    const drained = batches.find(({ claimed }) => claimed < limit);
    if (drained) this.#rest(drained);
    return 'idle';
  }

  /** The next batch, from the time that a full one took. */
  #pace(durationMs: number): void {
    this.#resize(this.#batchSize * Math.min(HOLD_MS / durationMs, 2));
  }

  /** False when it is of that size already. */
  #resize(wanted: number): boolean {
    const before = this.#batchSize;
    this.#batchSize = Math.min(Math.max(Math.round(wanted), SMALLEST_BATCH), this.#largestBatch);
    this.#limit = this.#batchSize;
    return this.#batchSize !== before;
  }

  /**
   * The first look is from the beginning. Where that takes too long (an old snapshot elsewhere), the others see at least
   * what becomes due from now on.
   */
  async #beginHere(): Promise<void> {
    // After everything: it tells the moment, and reads no entry of the index.
    this.#rest(await findDue(this.#options.pool, Number.MAX_SAFE_INTEGER));
    this.#lookedAt = LOOKS.map(() => Number.NEGATIVE_INFINITY);
  }

  /** Nothing is left up to the end of `span`. */
  #rest({ horizonMs, uptoMs }: DueSpan): void {
    if (horizonMs !== undefined) this.#watermarkMs = uptoMs;
  }

  #chooseLook(startedAt: number): Look {
    const look = LOOKS.findIndex(({ everyMs }, place) => startedAt - (this.#lookedAt[place] ?? 0) >= everyMs);
    this.#lookedAt = this.#lookedAt.map((at, place) => (place >= look ? startedAt : at));
    return { backMs: LOOKS[look]?.backMs };
  }

  /** Undefined: from the beginning. */
  #sinceMs(backMs: number | undefined): number | undefined {
    if (backMs === undefined || this.#watermarkMs === undefined) return undefined;
    return this.#watermarkMs - backMs;
  }

  #nextClaims(sinceMs: number | undefined): DueClaim[] {
    const limit = this.#limit;
    // While a fault is cornered the claims begin at one bucket, so that they come to it.
    if (limit < this.#batchSize) return [{ limit, sinceMs, firstBucket: this.#firstBucket }];
    this.#firstBucket = (this.#firstBucket + 1) % SWEEP_BUCKETS;
    const opposite = (this.#firstBucket + SWEEP_BUCKETS / 2) % SWEEP_BUCKETS;
    const firstBuckets = this.#isBehind ? [this.#firstBucket, opposite] : [this.#firstBucket];
    return firstBuckets.map((firstBucket) => ({ limit, sinceMs, firstBucket }));
  }

  /** Without those whose rows are at fault. */
  async #wakeAll(claims: readonly DueClaim[]): Promise<WokenBatch[]> {
    const { pool, minimumIntervalMs } = this.#options;
    const results = await Promise.allSettled(
      claims.map((claim) => wakeDueMonitors(pool, minimumIntervalMs, claim)),
    );
    const batches: WokenBatch[] = [];
    for (const result of results) {
      if (result.status === 'fulfilled') batches.push(result.value);
      else if (result.reason instanceof BatchFaultError) await this.#corner(result.reason);
      else throw result.reason;
    }
    return batches;
  }

  async #corner(error: BatchFaultError): Promise<void> {
    const { pool, log } = this.#options;
    const [row, ...others] = error.rows;
    if (!row || others.length > 0) {
      this.#limit = Math.max(1, Math.floor(error.rows.length / 2));
      return;
    }
    const { projectId, monitorKey } = row;
    log.error({ err: error.cause, projectId, monitorKey }, 'A due monitor could not be written.');
    await postponeWake(pool, row, FAULT_DELAY_MS);
    this.#limit = this.#batchSize;
  }

  #show(batch: WokenBatch, durationMs: number): void {
    const { metrics, log, onTransitions } = this.#options;
    metrics.monitorsWoken.inc(batch.claimed);
    metrics.dueLag.set(
      batch.earliestMs === undefined ? 0 : Math.max(0, batch.nowMs - batch.earliestMs) / 1000,
    );
    if (batch.horizonMs !== undefined) {
      metrics.clockLag.set(Math.max(0, batch.nowMs - batch.horizonMs) / 1000);
    }
    for (const { monitorKey, error } of batch.faults) {
      log.error({ err: error, monitorKey }, 'A due monitor could not be looked at.');
    }
    // The clock was read when the batch began.
    const committedMs = batch.nowMs + durationMs;
    for (const transition of batch.transitions) showOpening(metrics, transition, committedMs);
    if (batch.transitions.length > 0) onTransitions?.();
  }
}

function showOpening(metrics: SweeperMetrics, { isNew, incident }: Transition, committedMs: number): void {
  if (!isNew) return;
  metrics.incidentsOpened.inc({ kind: incident.kind });
  if (incident.kind !== 'missed_deadline' || incident.deadlineMs === undefined) return;
  metrics.detectionLateness.observe(Math.max(0, committedMs - incident.deadlineMs) / 1000);
}
