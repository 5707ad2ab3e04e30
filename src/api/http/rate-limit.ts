// Requests a minute of a project (the plan's api_requests_per_minute), over all replicas: each counts locally and
// settles with one row, about once a second or sooner when a noticeable part of the limit is spent. No request waits
// for it. Without the database each replica goes on with what it knows.
import { findPlan, limitOf } from '../../domain/plan.ts';
import { ProblemError } from '../../domain/problem.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { Organization } from '../../store/tenancy/organizations.ts';
import { deleteRateWindows, type RateSpend, settleRateWindows } from '../../store/tenancy/rate-windows.ts';
import type { Log } from '../../telemetry/log.ts';

const SETTLE_MS = 1_000;
/** Part of the limit that may be spent unsettled: what replicas together can overshoot by. */
const UNSETTLED_SHARE = 0.02;
const KEPT_WINDOWS = 5;

interface Bucket {
  window: number;
  /** Of all replicas, as of the last settlement, with our own spends that were sent. */
  settled: number;
  /** Ours, not sent yet. */
  unsettled: number;
}

export interface RateLimiterOptions {
  pool: Pool;
  log: Log;
  /** Wall clock, ms; for tests. */
  now?: () => number;
}

export class RateLimiter {
  readonly #options: RateLimiterOptions;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();
  #timer: NodeJS.Timeout | undefined;
  #settling: Promise<void> | undefined;
  /** The database's clock less ours: replicas with different clocks share windows. */
  #offsetMs = 0;
  #cleanedWindow = 0;
  /** The last settlement failed: only the timer tries again. */
  #isAway = false;

  constructor(options: RateLimiterOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  start(): void {
    this.#timer = setInterval(() => void this.settle(), SETTLE_MS).unref();
  }

  /** Ends the timer and settles what is left. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.settle();
  }

  /** Counts one request. Throws `rate_limited` with the limit object. */
  spend(scopeId: string, organization: Organization): void {
    const plan = findPlan(organization.plan);
    const limit = plan.apiRequestsPerMinute;
    const bucket = this.#bucketOf(scopeId);
    const used = bucket.settled + bucket.unsettled;
    if (used >= limit) {
      throw new ProblemError('rate_limited', {
        detail: `The project may make ${limit} requests a minute: wait as long as Retry-After says.`,
        retryAfterSeconds: this.#secondsLeft(),
        limit: limitOf(plan, {
          dimension: 'api_requests_per_minute',
          limit,
          current: used,
          attempted: used + 1,
        }),
      });
    }
    bucket.unsettled += 1;
    if (!this.#isAway && bucket.unsettled >= Math.max(1, limit * UNSETTLED_SHARE)) void this.settle();
  }

  /** Sends what is unsettled; one settlement at a time. Never rejects. */
  settle(): Promise<void> {
    this.#settling ??= this.#settleOnce().finally(() => {
      this.#settling = undefined;
    });
    return this.#settling;
  }

  async #settleOnce(): Promise<void> {
    const spends = this.#takeSpends();
    if (spends.length === 0) return;
    try {
      this.#isAway = false;
      const { totals, nowMs } = await settleRateWindows(this.#options.pool, spends);
      this.#offsetMs = nowMs - this.#now();
      for (const { scopeId, window, used } of totals) {
        const bucket = this.#buckets.get(scopeId);
        if (bucket?.window === window) bucket.settled = used;
      }
      await this.#clean();
    } catch (error) {
      this.#takeBack(spends);
      this.#options.log.warn({ err: error }, 'The rate limit could not be settled.');
    }
  }

  #takeSpends(): RateSpend[] {
    const current = this.#window();
    const spends: RateSpend[] = [];
    for (const [scopeId, bucket] of this.#buckets) {
      if (bucket.unsettled > 0) {
        spends.push({ scopeId, window: bucket.window, spent: bucket.unsettled });
        bucket.settled += bucket.unsettled;
        bucket.unsettled = 0;
      } else if (bucket.window < current) this.#buckets.delete(scopeId);
    }
    return spends;
  }

  /** The local budget goes on with them, and the next second tries again. */
  #takeBack(spends: readonly RateSpend[]): void {
    this.#isAway = true;
    for (const { scopeId, window, spent } of spends) {
      const bucket = this.#buckets.get(scopeId);
      if (bucket?.window !== window) continue;
      bucket.settled -= spent;
      bucket.unsettled += spent;
    }
  }

  async #clean(): Promise<void> {
    const window = this.#window();
    if (window === this.#cleanedWindow) return;
    this.#cleanedWindow = window;
    await deleteRateWindows(this.#options.pool, window - KEPT_WINDOWS);
  }

  #bucketOf(scopeId: string): Bucket {
    const window = this.#window();
    const bucket = this.#buckets.get(scopeId);
    if (bucket?.window === window) return bucket;
    const fresh = { window, settled: 0, unsettled: 0 };
    this.#buckets.set(scopeId, fresh);
    return fresh;
  }

  #window(): number {
    return Math.floor((this.#now() + this.#offsetMs) / 60_000);
  }

  #secondsLeft(): number {
    return Math.max(1, Math.ceil(60 - (((this.#now() + this.#offsetMs) / 1_000) % 60)));
  }
}
