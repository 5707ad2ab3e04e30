// A queue of keys: each at most once, never two workers on one key, delayed retries, low priority for
// what can wait. Knows nothing of what the keys stand for. Bounded by the number of different keys.

import type { BackoffOptions } from './backoff.ts';
import type { KubeMetrics } from './kube-metrics.ts';
import type { TokenBucket } from './token-bucket.ts';

/** `low`: start-up and resync, taken only when nothing normal is ready. */
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

export class WorkQueue {
  constructor(options: WorkQueueOptions) {
    throw new Error(`not written yet: ${options.name}`);
  }

  /** Ready keys, without those in work or waiting. */
  get depth(): number {
    throw new Error('not written yet');
  }

  /**
   * Makes a key ready now. In work: it is taken again when done. Waiting: it waits no more.
   * Of two priorities the higher counts.
   */
  add(key: string, priority: QueuePriority = 'normal'): void {
    throw new Error(`not written yet: ${key} ${priority}`);
  }

  /** Makes a key ready after `delayMs`. Of two delays the shorter counts; a ready key stays ready. */
  addAfter(key: string, delayMs: number, priority: QueuePriority = 'normal'): void {
    throw new Error(`not written yet: ${key} ${delayMs} ${priority}`);
  }

  /** Counts a failure and adds the key after its backoff, at least `leastMs`. Returns the delay. */
  addRateLimited(key: string, leastMs = 0): number {
    throw new Error(`not written yet: ${key} ${leastMs}`);
  }

  /** Forgets the failures of a key. */
  forget(key: string): void {
    throw new Error(`not written yet: ${key}`);
  }

  /** Failures since the last `forget`. */
  failures(key: string): number {
    throw new Error(`not written yet: ${key}`);
  }

  /** The next key, now in work until `done`. Undefined after `shutDown`. */
  take(): Promise<string | undefined> {
    throw new Error('not written yet');
  }

  /** Ends the work on a key that `take` gave. */
  done(key: string): void {
    throw new Error(`not written yet: ${key}`);
  }

  /** Gives nothing more: waiting `take`s resolve to undefined, later adds are dropped. */
  shutDown(): void {
    throw new Error('not written yet');
  }
}
