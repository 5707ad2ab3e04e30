// A queue of keys: each key waits at most once, one worker at a time has it, and a failed key comes back after a delay.
// The queue does not know what a key stands for. Its size is bounded by the number of different keys.

import { type BackoffOptions, backoffMs, TokenBucket } from './backoff.ts';
import { FairKeys } from './fair-keys.ts';
import type { KubeMetrics } from './kube-metrics.ts';

/**
 * `low` is for work that can wait, such as the first list of all objects: taken when no normal key is ready, and one time
 * in eight, so that it waits and does not starve.
 */
export type QueuePriority = 'normal' | 'low';

export interface WorkQueueOptions {
  /** Label of the metrics. */
  name: string;
  /** Delays of one key in `addRateLimited`. Default 1 s to 60 s. */
  backoff?: BackoffOptions;
  /**
   * Keys of one group are taken in the order of arrival and share a bound on their retries; the groups have turns, so
   * that none waits for the many keys of another. Default: all keys are one group.
   */
  groupOf?: (key: string) => string;
  /** Bounds the retries of a group. Default 10 a second, burst 100. */
  newRetryBucket?: () => TokenBucket;
  metrics?: KubeMetrics;
}

/** A key to work on. While its delay runs, `readyAtMs` is undefined. */
interface Pending {
  priority: QueuePriority;
  readyAtMs: number | undefined;
}

/** The delay of a key, of which each waiting key has one. */
interface Delay {
  dueMs: number;
  timer: NodeJS.Timeout;
}

/** Node fires a longer timer at once; a key with a later due time gets another timer when this one fires. */
const maxTimerMs = 2 ** 31 - 1;

const LOW_EVERY = 8;

export class WorkQueue {
  readonly #name: string;
  readonly #backoff: BackoffOptions;
  readonly #groupOf: (key: string) => string;
  readonly #newRetryBucket: () => TokenBucket;
  readonly #metrics: KubeMetrics | undefined;
  readonly #labels: { name: string; controller: string };

  /** Every key to work on. It is also in `#ready` or in `#delays`, or in neither while a worker has it. */
  readonly #pending = new Map<string, Pending>();
  readonly #ready: Readonly<Record<QueuePriority, FairKeys>>;
  readonly #delays = new Map<string, Delay>();
  /** Keys that a worker has, with the time at which it took them. */
  readonly #working = new Map<string, number>();
  readonly #failures = new Map<string, number>();
  /** By group. One that is full is the same as a new one. */
  readonly #retryBuckets = new Map<string, TokenBucket>();
  readonly #takers: ((key: string | undefined) => void)[] = [];
  #taken = 0;
  #isShutDown: boolean = false;

  constructor(options: WorkQueueOptions) {
    this.#name = options.name;
    this.#labels = { name: options.name, controller: options.name };
    this.#backoff = options.backoff ?? { baseMs: 1000, maxMs: 60_000 };
    this.#groupOf = options.groupOf ?? (() => '');
    this.#ready = { normal: new FairKeys(this.#groupOf), low: new FairKeys(this.#groupOf) };
    this.#newRetryBucket = options.newRetryBucket ?? (() => new TokenBucket(10, 100));
    this.#metrics = options.metrics;
    this.#metrics?.queueAdds.inc(this.#labels, 0);
    this.#metrics?.queueRetries.inc(this.#labels, 0);
    this.#metrics?.queues.set(this.#name, {
      depth: () => this.depth,
      workingSeconds: () =>
        [...this.#working.values()].map((sinceMs) => (performance.now() - sinceMs) / 1000),
    });
  }

  /** The number of ready keys, without those in work and those whose delay runs. */
  get depth(): number {
    return this.#ready.normal.size + this.#ready.low.size;
  }

  /** The number of keys whose delay runs. */
  get waiting(): number {
    return this.#delays.size;
  }

  /**
   * Makes a key ready now. A key in work is ready again as soon as it is done; the delay of a waiting key ends.
   * Of two priorities the higher counts.
   */
  add(key: string, priority: QueuePriority = 'normal'): void {
    if (this.#isShutDown) return;
    const known = this.#pending.get(key);
    if (known?.readyAtMs === undefined) this.#metrics?.queueAdds.inc(this.#labels);
    const pending = this.#merge(key, priority);
    this.#endDelay(key);
    this.#makeReady(key, pending);
    this.#serve();
  }

  /**
   * Makes a key ready after `delayMs`. Of two delays the shorter counts; a ready key stays ready. Throws a RangeError for
   * a delay that is no number: with it the key would be ready again and again.
   */
  addAfter(key: string, delayMs: number, priority: QueuePriority = 'normal'): void {
    if (Number.isNaN(delayMs)) throw new RangeError(`The delay of the key ${key} is not a number.`);
    if (this.#isShutDown) return;
    if (delayMs <= 0) {
      this.add(key, priority);
      return;
    }
    const pending = this.#merge(key, priority);
    if (pending.readyAtMs !== undefined) {
      this.#makeReady(key, pending);
      return;
    }
    const dueMs = performance.now() + delayMs;
    if (dueMs >= (this.#delays.get(key)?.dueMs ?? Number.POSITIVE_INFINITY)) return;
    this.#endDelay(key);
    this.#startDelay(key, dueMs);
  }

  /** Counts a failure and adds the key after its backoff, but not before `leastMs`. Returns the delay. */
  addRateLimited(key: string, leastMs = 0): number {
    const failures = this.failures(key) + 1;
    this.#failures.set(key, failures);
    this.#metrics?.queueRetries.inc(this.#labels);
    const bucketMs = this.#retryBucketOf(key).reserve(performance.now());
    const delayMs = Math.max(backoffMs(failures, this.#backoff), bucketMs, leastMs);
    this.addAfter(key, delayMs);
    return delayMs;
  }

  /** Resets the failure count of a key. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** The failures of a key since the last `forget`. */
  failures(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  /** Resolves to the next key, which is in work until `done`. Resolves to undefined after `shutDown`. */
  take(): Promise<string | undefined> {
    return new Promise((resolve) => {
      if (this.#isShutDown) {
        resolve(undefined);
        return;
      }
      this.#takers.push(resolve);
      this.#serve();
    });
  }

  /** Ends the work on a key. Throws a RangeError if the key is not in work. */
  done(key: string): void {
    const sinceMs = this.#working.get(key);
    if (sinceMs === undefined) throw new RangeError(`The key ${key} is not in work.`);
    this.#working.delete(key);
    this.#metrics?.workSeconds.observe(this.#labels, (performance.now() - sinceMs) / 1000);
    const pending = this.#pending.get(key);
    if (pending?.readyAtMs !== undefined) this.#makeReady(key, pending);
    this.#serve();
  }

  /** Ends the queue: waiting `take`s resolve to undefined, later adds are dropped. */
  shutDown(): void {
    this.#isShutDown = true;
    for (const key of [...this.#delays.keys()]) this.#endDelay(key);
    for (const taker of this.#takers.splice(0)) taker(undefined);
  }

  #retryBucketOf(key: string): TokenBucket {
    const group = this.#groupOf(key);
    const known = this.#retryBuckets.get(group);
    if (known !== undefined) return known;
    const nowMs = performance.now();
    for (const [other, bucket] of this.#retryBuckets)
      if (bucket.isFull(nowMs)) this.#retryBuckets.delete(other);
    const bucket = this.#newRetryBucket();
    this.#retryBuckets.set(group, bucket);
    return bucket;
  }

  /** The entry of a key, with the higher of the two priorities. */
  #merge(key: string, priority: QueuePriority): Pending {
    const known = this.#pending.get(key);
    if (known === undefined) {
      const pending: Pending = { priority, readyAtMs: undefined };
      this.#pending.set(key, pending);
      return pending;
    }
    if (priority === 'normal') known.priority = 'normal';
    return known;
  }

  /** Puts a key into the ready set of its priority; a key in work goes there when it is done. */
  #makeReady(key: string, pending: Pending): void {
    pending.readyAtMs ??= performance.now();
    if (this.#working.has(key)) return;
    if (pending.priority === 'normal') this.#ready.low.delete(key);
    this.#ready[pending.priority].add(key);
  }

  #serve(): void {
    while (this.#takers.length > 0) {
      const key = this.#nextKey();
      if (key === undefined) return;
      const taker = this.#takers.shift();
      this.#startWork(key);
      taker?.(key);
    }
  }

  #nextKey(): string | undefined {
    const { normal, low } = this.#ready;
    const isTurnOfLow = this.#taken % LOW_EVERY === LOW_EVERY - 1;
    const key = isTurnOfLow ? (low.next() ?? normal.next()) : (normal.next() ?? low.next());
    if (key !== undefined) this.#taken += 1;
    return key;
  }

  #startWork(key: string): void {
    const nowMs = performance.now();
    const readyAtMs = this.#pending.get(key)?.readyAtMs ?? nowMs;
    this.#metrics?.queueSeconds.observe(this.#labels, (nowMs - readyAtMs) / 1000);
    this.#pending.delete(key);
    this.#working.set(key, nowMs);
  }

  #startDelay(key: string, dueMs: number): void {
    const timerMs = Math.min(Math.max(0, Math.ceil(dueMs - performance.now())), maxTimerMs);
    this.#delays.set(key, { dueMs, timer: setTimeout(() => this.#wake(key, dueMs), timerMs) });
  }

  #endDelay(key: string): void {
    clearTimeout(this.#delays.get(key)?.timer);
    this.#delays.delete(key);
  }

  #wake(key: string, dueMs: number): void {
    this.#delays.delete(key);
    if (dueMs > performance.now()) {
      this.#startDelay(key, dueMs);
      return;
    }
    const pending = this.#pending.get(key);
    if (pending === undefined) return;
    this.#metrics?.queueAdds.inc(this.#labels);
    this.#makeReady(key, pending);
    this.#serve();
  }
}
