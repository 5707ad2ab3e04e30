// Runs one piece of work again and again until it is stopped. It knows neither the work nor the database.
import type { Log } from '../telemetry/log.ts';
import type { SweeperMetrics } from './sweeper-metrics.ts';

/** `more`: there is more to do now. */
export type RunResult = 'more' | 'idle';

export interface LoopOptions {
  /** Pause after a run that found nothing more to do. */
  intervalMs: number;
  /** Pause after a failed run; doubles up to `maxBackoffMs` with each further failure. */
  minBackoffMs?: number;
  maxBackoffMs?: number;
  run: () => Promise<RunResult>;
  onRun?: (run: { durationMs: number; result: RunResult | 'failed' }) => void;
  onError: (error: unknown) => void;
}

const DEFAULT_MIN_BACKOFF_MS = 100;
const DEFAULT_MAX_BACKOFF_MS = 2_000;
/** Replicas that start together must not query together. */
const JITTER = 0.1;

export class Loop {
  readonly #options: LoopOptions;
  #failures = 0;
  #isWoken = false;
  #isStopped = false;
  #endPause: (() => void) | undefined;
  readonly #running: Promise<void>;

  /** Starts at once. */
  constructor(options: LoopOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** When true, a run under way should start nothing more. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Ends the pause. During a run, the next run follows at once. The pause after a failed run is not cut short. */
  wake(): void {
    this.#isWoken = true;
    if (this.#failures === 0) this.#endPause?.();
  }

  /** Starts no further run and waits for the one under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#endPause?.();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#isWoken = false;
      const result = await this.#runOnce();
      if (result === 'more' || (this.#isWoken && result === 'idle')) {
        // Runs that never wait for anything else would keep timers and sockets from their turn.
        await new Promise((resolve) => setImmediate(resolve));
      } else {
        await this.#pause(result === 'failed' ? this.#backoffMs() : this.#options.intervalMs);
      }
    }
  }

  async #runOnce(): Promise<RunResult | 'failed'> {
    const startedAt = performance.now();
    let result: RunResult | 'failed' = 'failed';
    try {
      result = await this.#options.run();
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      this.#options.onError(error);
    }
    this.#options.onRun?.({ durationMs: performance.now() - startedAt, result });
    return result;
  }

  #backoffMs(): number {
    const { minBackoffMs = DEFAULT_MIN_BACKOFF_MS, maxBackoffMs = DEFAULT_MAX_BACKOFF_MS } = this.#options;
    return Math.min(minBackoffMs * 2 ** (this.#failures - 1), maxBackoffMs);
  }

  #pause(ms: number): Promise<void> {
    if (this.#isStopped) return Promise.resolve();
    const jitteredMs = ms * (1 - JITTER + 2 * JITTER * Math.random());
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#endPause = undefined;
        resolve();
      };
      const timer = setTimeout(end, jitteredMs);
      this.#endPause = end;
    });
  }
}

export interface SweepLoopOptions extends Pick<LoopOptions, 'intervalMs' | 'maxBackoffMs' | 'run'> {
  /** The label `sweep` of the metrics. */
  name: string;
  metrics: SweeperMetrics;
  log: Log;
}

/** Starts a loop that counts its runs in the metrics and logs its failures. */
export function startSweepLoop({ name, metrics, log, ...loop }: SweepLoopOptions): Loop {
  metrics.sweepFailures.inc({ sweep: name }, 0); // so that `increase` counts the first one
  return new Loop({
    ...loop,
    onRun: ({ durationMs, result }) => {
      metrics.sweepDuration.observe({ sweep: name }, durationMs / 1000);
      if (result === 'failed') metrics.sweepFailures.inc({ sweep: name });
    },
    onError: (err) => log.warn({ err, sweep: name }, 'A sweep failed. It will be tried again.'),
  });
}
