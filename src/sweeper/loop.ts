// Runs one piece of work again and again until it is told to stop. It knows neither the work nor the database.

/** `more`: there is more to do now. */
export type RunResult = 'more' | 'idle';

export interface LoopOptions {
  /** Pause after a round that found nothing more to do. */
  intervalMs: number;
  /** Pause after a failed round; doubles up to `maxBackoffMs` with each further one. */
  minBackoffMs?: number;
  maxBackoffMs?: number;
  run: () => Promise<RunResult>;
  onRun?: (run: { durationMs: number; outcome: RunResult | 'failed' }) => void;
  onError: (error: unknown) => void;
}

const DEFAULT_MIN_BACKOFF_MS = 100;
const DEFAULT_MAX_BACKOFF_MS = 2_000;
/** Replicas that began together must not knock together. */
const JITTER = 0.1;

export class Loop {
  readonly #options: LoopOptions;
  #failures = 0;
  #isWoken = false;
  #isStopped = false;
  #endPause: (() => void) | undefined;
  readonly #running: Promise<void>;

  /** Begins at once. */
  constructor(options: LoopOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** A round under way should begin nothing more. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Ends the pause; during a round: the next one follows at once. A failed round's pause is not cut short. */
  wake(): void {
    this.#isWoken = true;
    if (this.#failures === 0) this.#endPause?.();
  }

  /** Begins no further round and waits for the one under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#endPause?.();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#isWoken = false;
      const outcome = await this.#round();
      if (outcome === 'more' || (this.#isWoken && outcome === 'idle')) {
        // Rounds that never wait for anything else would keep timers and sockets from their turn.
        await new Promise((resolve) => setImmediate(resolve));
      } else {
        await this.#pause(outcome === 'failed' ? this.#backoffMs() : this.#options.intervalMs);
      }
    }
  }

  async #round(): Promise<RunResult | 'failed'> {
    const startedAt = performance.now();
    let outcome: RunResult | 'failed' = 'failed';
    try {
      outcome = await this.#options.run();
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      this.#options.onError(error);
    }
    this.#options.onRun?.({ durationMs: performance.now() - startedAt, outcome });
    return outcome;
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
