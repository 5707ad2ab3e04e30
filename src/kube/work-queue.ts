// A queue of keys: each at most once, never two workers on one key, delayed retries, low priority for
// what can wait. Knows nothing of what the keys stand for. Bounded by the number of different keys.

import { type BackoffOptions, backoffMs } from './backoff.ts';
import { DelayHeap } from './delay-heap.ts';
import type { KubeMetrics } from './kube-metrics.ts';
import { TokenBucket } from './token-bucket.ts';

/** `low`: what can wait, as the first look at everything: taken only when nothing normal is ready. */
export type QueuePriority = 'normal' | 'low';

export interface WorkQueueOptions {
  /** Label of metrics. */
  name: string;
  /** Per-key delays of `addRateLimited`. Default 1 s to 60 s. */
  backoff?: BackoffOptions;
  /** Bounds all retries together. Default 10 a second, burst 100. */
  retryBucket?: TokenBucket;
  metrics?: KubeMetrics;
}

/** A key that is to be worked on: `readyAtMs` undefined while its delay runs. */
interface Pending {
  priority: QueuePriority;
  readyAtMs: number | undefined;
}

/** The longest timer of Node; a later moment is just looked at again. */
const maxTimerMs = 2 ** 31 - 1;

export class WorkQueue {
  readonly #name: string;
  readonly #backoff: BackoffOptions;
  readonly #retryBucket: TokenBucket;
  readonly #metrics: KubeMetrics | undefined;
  readonly #labels: { name: string; controller: string };

  /** Keys that are to be worked on, once each. In `#ready` or `#delays`, or (in work) in neither. */
  readonly #pending = new Map<string, Pending>();
  /** Sets keep the order of insertion: first in, first out. */
  readonly #ready = { normal: new Set<string>(), low: new Set<string>() };
  readonly #delays = new DelayHeap();
  /** Keys in work, with the moment that they were taken. */
  readonly #working = new Map<string, number>();
  readonly #failures = new Map<string, number>();
  readonly #takers: ((key: string | undefined) => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isShutDown: boolean = false;

  constructor(options: WorkQueueOptions) {
    this.#name = options.name;
    this.#labels = { name: options.name, controller: options.name };
    this.#backoff = options.backoff ?? { baseMs: 1000, maxMs: 60_000 };
    this.#retryBucket = options.retryBucket ?? new TokenBucket(10, 100);
    this.#metrics = options.metrics;
    this.#metrics?.queueAdds.inc(this.#labels, 0);
    this.#metrics?.queueRetries.inc(this.#labels, 0);
    this.#metrics?.queues.set(this.#name, {
      depth: () => this.depth,
      workingSeconds: () =>
        [...this.#working.values()].map((sinceMs) => (performance.now() - sinceMs) / 1000),
    });
  }

  /** Ready keys, without those in work or waiting. */
  get depth(): number {
    return this.#ready.normal.size + this.#ready.low.size;
  }

  /** Keys whose delay runs. */
  get waiting(): number {
    return this.#delays.size;
  }

  /**
   * Makes a key ready now. In work: it is taken again when done. Waiting: it waits no more.
   * Of two priorities the higher counts.
   */
  add(key: string, priority: QueuePriority = 'normal'): void {
    if (this.#isShutDown) return;
    const known = this.#pending.get(key);
    if (known?.readyAtMs === undefined) this.#metrics?.queueAdds.inc(this.#labels);
    const pending = this.#merge(key, priority);
    this.#delays.remove(key);
    pending.readyAtMs ??= performance.now();
    this.#line(key, pending);
    this.#serve();
  }

  /** Makes a key ready after `delayMs`. Of two delays the shorter counts; a ready key stays ready. */
  addAfter(key: string, delayMs: number, priority: QueuePriority = 'normal'): void {
    if (this.#isShutDown) return;
    if (delayMs <= 0) {
      this.add(key, priority);
      return;
    }
    const pending = this.#merge(key, priority);
    if (pending.readyAtMs !== undefined) {
      this.#line(key, pending);
      return;
    }
    const dueMs = performance.now() + delayMs;
    this.#delays.set(key, Math.min(dueMs, this.#delays.dueMs(key) ?? dueMs));
    this.#setTimer();
  }

  /** Counts a failure and adds the key after its backoff, at least `leastMs`. Returns the delay. */
  addRateLimited(key: string, leastMs = 0): number {
    const failures = this.failures(key) + 1;
    this.#failures.set(key, failures);
    this.#metrics?.queueRetries.inc(this.#labels);
    const bucketMs = this.#retryBucket.reserve(performance.now());
    const delayMs = Math.max(backoffMs(failures, this.#backoff), bucketMs, leastMs);
    this.addAfter(key, delayMs);
    return delayMs;
  }

  /** Forgets the failures of a key. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** Failures since the last `forget`. */
  failures(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  /** The next key, now in work until `done`. Undefined after `shutDown`. */
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

  /** Ends the work on a key that `take` gave. */
  done(key: string): void {
    const sinceMs = this.#working.get(key);
    if (sinceMs === undefined) throw new RangeError(`The key ${key} is not in work.`);
    this.#working.delete(key);
    this.#metrics?.workSeconds.observe(this.#labels, (performance.now() - sinceMs) / 1000);
    const pending = this.#pending.get(key);
    if (pending?.readyAtMs !== undefined) this.#line(key, pending);
    this.#serve();
  }

  /** Gives nothing more: waiting `take`s resolve to undefined, later adds are dropped. */
  shutDown(): void {
    this.#isShutDown = true;
    clearTimeout(this.#timer);
    for (const taker of this.#takers.splice(0)) taker(undefined);
  }

  /** The one entry of a key, with the higher of the two priorities. */
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

  /** Puts a ready key in its line; a key in work goes there when it is done. */
  #line(key: string, pending: Pending): void {
    if (this.#working.has(key)) return;
    if (pending.priority === 'normal') this.#ready.low.delete(key);
    this.#ready[pending.priority].add(key);
  }

  #serve(): void {
    while (this.#takers.length > 0) {
      const key = first(this.#ready.normal) ?? first(this.#ready.low);
      if (key === undefined) return;
      const taker = this.#takers.shift();
      this.#startWork(key);
      taker?.(key);
    }
  }

  #startWork(key: string): void {
    const nowMs = performance.now();
    const readyAtMs = this.#pending.get(key)?.readyAtMs ?? nowMs;
    this.#metrics?.queueSeconds.observe(this.#labels, (nowMs - readyAtMs) / 1000);
    this.#pending.delete(key);
    this.#ready.normal.delete(key);
    this.#ready.low.delete(key);
    this.#working.set(key, nowMs);
  }

  /** One timer for the earliest delay. */
  #setTimer(): void {
    clearTimeout(this.#timer);
    const earliestMs = this.#delays.earliestMs;
    if (earliestMs === undefined || this.#isShutDown) return;
    const delayMs = Math.min(Math.max(0, Math.ceil(earliestMs - performance.now())), maxTimerMs);
    this.#timer = setTimeout(() => this.#endDelays(), delayMs);
  }

  #endDelays(): void {
    const nowMs = performance.now();
    for (let key = this.#delays.takeDue(nowMs); key !== undefined; key = this.#delays.takeDue(nowMs)) {
      const pending = this.#pending.get(key);
      if (pending === undefined) continue;
      pending.readyAtMs = nowMs;
      this.#metrics?.queueAdds.inc(this.#labels);
      this.#line(key, pending);
    }
    this.#serve();
    this.#setTimer();
  }
}

function first(keys: Set<string>): string | undefined {
  return keys.values().next().value;
}
