// Takes keys from a queue and reconciles them, `concurrency` at a time. Says what becomes of each outcome.

import type { KubeLog } from './kube-log.ts';
import type { KubeMetrics } from './kube-metrics.ts';
import type { QueuePriority, WorkQueue } from './work-queue.ts';

/** Nothing: done until the next change. `requeueAfterMs`: look again then. */
export interface ReconcileResult {
  requeueAfterMs?: number;
}

export interface ReconcileContext {
  /** Aborted when the time limit is over or the controller stops hard. */
  signal: AbortSignal;
  /** Failures of this key in a row, 0 at the first try. */
  failures: number;
}

/**
 * Makes one object so as its spec says; reads what is there, whatever the cause of the call.
 * Throw TerminalError for what no retry mends; anything else thrown is retried with backoff, at least
 * `retryAfterMs` later if the error has that. A KubeError conflict is retried without counting as an error.
 */
export type Reconcile = (key: string, context: ReconcileContext) => Promise<ReconcileResult | undefined>;

/** No retry until the object changes. */
export class TerminalError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'TerminalError';
  }
}

export interface ControllerOptions {
  /** Label of metrics and logs. */
  name: string;
  reconcile: Reconcile;
  /** Default 4. */
  concurrency?: number;
  /** Time limit of one reconcile. Default 120,000. */
  reconcileTimeoutMs?: number;
  /** Default: a new one with the defaults. */
  queue?: WorkQueue;
  metrics?: KubeMetrics;
  log?: KubeLog;
}

export class Controller {
  readonly queue: WorkQueue;

  constructor(options: ControllerOptions) {
    throw new Error(`not written yet: ${options.name}`);
  }

  /** Adds a key; before `start` they gather. */
  enqueue(key: string, priority: QueuePriority = 'normal'): void {
    this.queue.add(key, priority);
  }

  /** Starts the workers (on the leader, when caches are synced). */
  start(): void {
    throw new Error('not written yet');
  }

  /**
   * Takes no more keys, waits for those in work up to `graceMs`, then aborts their signals and waits on for
   * at most one second. A stopped controller cannot be started again. True if all work ended.
   */
  stop(graceMs = 10_000): Promise<boolean> {
    throw new Error(`not written yet: ${graceMs}`);
  }
}
