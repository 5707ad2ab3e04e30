// Limits the requests of a project per minute (api_requests_per_minute of the plan) over all replicas. Each replica
// counts locally and settles with one row, once a second or as soon as 2% of the limit is unsettled. No request waits for
// a settlement. While the database is away each replica continues with its own counts.
import { type FindPlan, limitOf, type Plan } from '../../domain/plan.ts';
import { ProblemError } from '../../domain/problem.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { Organization } from '../../store/tenancy/organizations.ts';
import { type RateSpend, settleRateWindows } from '../../store/tenancy/rate-windows.ts';
import type { Log } from '../../telemetry/log.ts';

const SETTLE_MS = 1_000;
/** Share of the limit that one replica may spend unsettled: the replicas can overshoot the limit by so much each. */
const UNSETTLED_SHARE = 0.02;

/** Minutes of projects that are over and not settled, at most: with the database away for long the oldest are lost. */
const MOST_CLOSED = 50_000;

/** What a call is told of its project's requests of this minute, as far as this replica knows. */
export interface RateState {
  limit: number;
  remaining: number;
  /** Of the minute. */
  secondsLeft: number;
  problem?: ProblemError;
}

interface Bucket {
  window: number;
  /** Requests of all replicas at the last settlement, with those of this replica that were sent since. */
  settled: number;
  /** Requests of this replica that were not sent yet. */
  unsettled: number;
}

export interface RateLimiterOptions {
  pool: Pool;
  log: Log;
  findPlan: FindPlan;
  /** Wall clock in ms; tests set it. */
  now?: () => number;
}

export class RateLimiter {
  readonly #options: RateLimiterOptions;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();
  /** Spends of windows that are over, which no limit asks for and usage does, by scope and window. */
  readonly #closed = new Map<string, RateSpend>();
  #timer: NodeJS.Timeout | undefined;
  #settling: Promise<void> | undefined;
  /** Clock of the database minus the local one: replicas with different clocks share windows. */
  #offsetMs = 0;
  /** The last settlement failed: only the timer tries again. */
  #isAway = false;

  constructor(options: RateLimiterOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  start(): void {
    this.#timer = setInterval(() => void this.settle(), SETTLE_MS).unref();
  }

  /** Stops the timer and settles the rest. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.settle();
  }

  /** Counts one request, and says what is left. `problem`: the request is one too many. */
  spend(scopeId: string, organization: Organization): RateState {
    const plan = this.#options.findPlan(organization.plan);
    const limit = plan.apiRequestsPerMinute;
    const bucket = this.#bucketOf(scopeId);
    const used = bucket.settled + bucket.unsettled;
    const state = { limit, secondsLeft: this.#secondsLeft() };
    if (used >= limit) return { ...state, remaining: 0, problem: tooMany(plan, used, state.secondsLeft) };
    bucket.unsettled += 1;
    if (!this.#isAway && bucket.unsettled >= Math.max(1, limit * UNSETTLED_SHARE)) void this.settle();
    return { ...state, remaining: limit - used - 1 };
  }

  /** Sends the unsettled counts, one settlement at a time. Never rejects. */
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
    } catch (error) {
      this.#takeBack(spends);
      this.#options.log.warn(
        { err: error },
        'The counts of the rate limit could not be settled: the next second tries again.',
      );
    }
  }

  #takeSpends(): RateSpend[] {
    const current = this.#window();
    const spends: RateSpend[] = [];
    for (const [scopeId, bucket] of this.#buckets) {
      if (bucket.unsettled > 0) {
        // With what is left of the same window: a clock that is set back opens one again.
        const key = keyOf(scopeId, bucket.window);
        const spent = bucket.unsettled + (this.#closed.get(key)?.spent ?? 0);
        this.#closed.delete(key);
        spends.push({ scopeId, window: bucket.window, spent });
        bucket.settled += bucket.unsettled;
        bucket.unsettled = 0;
      } else if (bucket.window < current) this.#buckets.delete(scopeId);
    }
    spends.push(...this.#closed.values());
    this.#closed.clear();
    return spends;
  }

  #close({ scopeId, window, spent }: RateSpend): void {
    const key = keyOf(scopeId, window);
    const before = this.#closed.get(key)?.spent ?? 0;
    this.#closed.set(key, { scopeId, window, spent: before + spent });
    for (const oldest of this.#closed.keys()) {
      if (this.#closed.size <= MOST_CLOSED) break;
      this.#closed.delete(oldest);
    }
  }

  /** Counts the spends as unsettled again. The next second tries again. */
  #takeBack(spends: readonly RateSpend[]): void {
    this.#isAway = true;
    for (const spend of spends) {
      const bucket = this.#buckets.get(spend.scopeId);
      if (bucket?.window !== spend.window) {
        this.#close(spend);
        continue;
      }
      bucket.settled -= spend.spent;
      bucket.unsettled += spend.spent;
    }
  }

  #bucketOf(scopeId: string): Bucket {
    const window = this.#window();
    const bucket = this.#buckets.get(scopeId);
    if (bucket?.window === window) return bucket;
    if (bucket && bucket.unsettled > 0)
      this.#close({ scopeId, window: bucket.window, spent: bucket.unsettled });
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

const keyOf = (scopeId: string, window: number) => `${window} ${scopeId}`;

function tooMany(plan: Plan, used: number, secondsLeft: number): ProblemError {
  const limit = plan.apiRequestsPerMinute;
  return new ProblemError('rate_limited', {
    detail: `The project has made all of its ${limit} requests of this minute: wait for Retry-After, then try again.`,
    retryAfterSeconds: secondsLeft,
    limit: limitOf(plan, {
      dimension: 'api_requests_per_minute',
      limit,
      current: used,
      attempted: used + 1,
    }),
  });
}
