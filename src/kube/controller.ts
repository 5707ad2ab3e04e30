// Takes keys from a queue, reconciles `concurrency` of them at a time, and retries or requeues them by the result.

import { isConflict } from './kube-error.ts';
import { type KubeLog, silentLog } from './kube-log.ts';
import type { KubeMetrics } from './kube-metrics.ts';
import { namespaceOfKey } from './kube-object.ts';
import { type QueuePriority, WorkQueue } from './work-queue.ts';

/** With `requeueAfterMs` the key is reconciled again after that time, without it after its next change. */
export interface ReconcileResult {
  requeueAfterMs?: number;
  /** Of the next reconcile. Default `normal`. */
  priority?: QueuePriority;
}

export interface ReconcileContext {
  /** Aborted when the time limit is over, or when `stop` waits no longer. */
  signal: AbortSignal;
  /** Consecutive failures of this key, 0 at the first try. */
  failures: number;
}

/**
 * Brings one object to the state that its spec describes. It reads the current state, whatever caused the call.
 * If it throws, the controller retries with backoff, not before `retryAfterMs` if the error has that field; a KubeError
 * conflict does not count as an error. If a retry cannot help, write the fault into the status and return.
 */
export type Reconcile = (key: string, context: ReconcileContext) => Promise<ReconcileResult | undefined>;

export interface ControllerOptions {
  /** Label of the metrics and field of the log. */
  name: string;
  reconcile: Reconcile;
  /** Default 4. */
  concurrency?: number;
  /** Time limit of one reconcile. Default 120,000. */
  reconcileTimeoutMs?: number;
  /** Default: a new queue with default options. */
  queue?: WorkQueue;
  metrics?: KubeMetrics;
  log?: KubeLog;
}

export class Controller {
  readonly queue: WorkQueue;
  readonly #options: ControllerOptions;
  readonly #log: KubeLog;
  readonly #hardStop = new AbortController();
  #workers: Promise<void>[] = [];
  #isStopped: boolean = false;

  constructor(options: ControllerOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLog;
    const { metrics, name } = options;
    // Objects of one namespace that fail by the hundred delay the retries of no other namespace.
    this.queue = options.queue ?? new WorkQueue({ name, metrics, groupOf: namespaceOfKey });
    // Each series starts at 0, so that a rate over it counts the first failure.
    for (const result of results) metrics?.reconciles.inc({ controller: name, result }, 0);
    metrics?.reconcileErrors.inc({ controller: name }, 0);
    metrics?.reconcileTimeouts.inc({ controller: name }, 0);
    metrics?.activeWorkers.set({ controller: name }, 0);
    metrics?.maxConcurrent.set({ controller: name }, this.#concurrency);
  }

  /** Adds a key. Keys that are added before `start` wait for it. */
  enqueue(key: string, priority: QueuePriority = 'normal'): void {
    this.queue.add(key, priority);
  }

  /** Starts the workers (call it on the leader, with synced caches). Does nothing when started or stopped. */
  start(): void {
    if (this.#workers.length > 0 || this.#isStopped) return;
    this.#workers = Array.from({ length: this.#concurrency }, () => this.#work());
  }

  /**
   * Takes no more keys, waits up to `graceMs` for those in work, then aborts their signals and waits one more second
   * at most. Returns true if all work ended. A stopped controller cannot be started again.
   */
  async stop(graceMs = 10_000): Promise<boolean> {
    this.#isStopped = true;
    this.queue.shutDown();
    const ended = Promise.all(this.#workers);
    if (await endsWithin(ended, graceMs)) return true;
    this.#hardStop.abort(new Error('The controller is stopping.'));
    return endsWithin(ended, 1000);
  }

  get #concurrency(): number {
    return this.#options.concurrency ?? 4;
  }

  async #work(): Promise<void> {
    const { metrics, name } = this.#options;
    for (let key = await this.queue.take(); key !== undefined; key = await this.queue.take()) {
      metrics?.activeWorkers.inc({ controller: name });
      try {
        await this.#reconcile(key);
      } finally {
        metrics?.activeWorkers.dec({ controller: name });
        this.queue.done(key);
      }
    }
  }

  async #reconcile(key: string): Promise<void> {
    const { metrics, name } = this.#options;
    const stopTimer = metrics?.reconcileSeconds.startTimer({ controller: name });
    const limit = new AbortController();
    const timer = setTimeout(() => {
      metrics?.reconcileTimeouts.inc({ controller: name });
      limit.abort(new Error('The reconcile exceeded its time limit.'));
    }, this.#options.reconcileTimeoutMs ?? 120_000);
    const stopHard = (): void => limit.abort(this.#hardStop.signal.reason);
    this.#hardStop.signal.addEventListener('abort', stopHard, { once: true });
    try {
      const context = { signal: limit.signal, failures: this.queue.failures(key) };
      this.#settle(key, await this.#options.reconcile(key, context));
    } catch (error) {
      this.#settleError(key, error);
    } finally {
      clearTimeout(timer);
      this.#hardStop.signal.removeEventListener('abort', stopHard);
      stopTimer?.();
    }
  }

  #settle(key: string, result: ReconcileResult | undefined): void {
    const requeueAfterMs = result?.requeueAfterMs;
    // A delay that the queue refuses is a failure of the reconcile.
    if (requeueAfterMs !== undefined) this.queue.addAfter(key, requeueAfterMs, result?.priority);
    this.queue.forget(key);
    this.#count(requeueAfterMs === undefined ? 'success' : 'requeue_after');
  }

  #settleError(key: string, error: unknown): void {
    const { metrics, name } = this.#options;
    if (isConflict(error)) {
      // Another writer was faster, and the cache will catch up. This is normal and no error.
      this.queue.addRateLimited(key);
      this.#count('requeue');
      return;
    }
    metrics?.reconcileErrors.inc({ controller: name });
    this.#count('error');
    const delayMs = Math.round(this.queue.addRateLimited(key, retryAfterMs(error)));
    const failures = this.queue.failures(key);
    this.#log.warn(
      { err: error, controller: name, key, failures, delayMs },
      'A reconcile failed and will be retried.',
    );
  }

  #count(result: (typeof results)[number]): void {
    this.#options.metrics?.reconciles.inc({ controller: this.#options.name, result });
  }
}

const results = ['success', 'requeue', 'requeue_after', 'error'] as const;

/** Any error may carry the time for which the server asks to wait. */
function retryAfterMs(error: unknown): number {
  if (typeof error !== 'object' || error === null || !('retryAfterMs' in error)) return 0;
  return typeof error.retryAfterMs === 'number' ? error.retryAfterMs : 0;
}

async function endsWithin(work: Promise<unknown>, limitMs: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), limitMs);
  void work.then(() => resolve(true));
  const ended = await promise;
  clearTimeout(timer);
  return ended;
}
