// Holds calls open until something happens in the database, with one query at a time for all waiting calls. It polls,
// because a NOTIFY on the beat path would halve the throughput of beats.

export interface PollerOptions<Subject, Found> {
  /** Pause between two queries; none runs while nobody waits. */
  everyMs: number;
  /** One query for all subjects. The result has what was found for each, undefined where nothing has happened. */
  poll: (subjects: readonly Subject[]) => Promise<readonly (Found | undefined)[]>;
}

interface Waiter<Subject, Found> {
  subject: Subject;
  resolve: (found: Found | undefined) => void;
  reject: (error: unknown) => void;
}

export class SharedPoller<Subject, Found> {
  readonly #options: PollerOptions<Subject, Found>;
  readonly #waiters = new Set<Waiter<Subject, Found>>();
  #isRunning = false;

  constructor(options: PollerOptions<Subject, Found>) {
    this.#options = options;
  }

  /** How many calls wait. */
  get size(): number {
    return this.#waiters.size;
  }

  /**
   * Waits until something is found for the subject. Undefined when `waitMs` have passed or the signal aborts. Throws
   * what the query throws.
   */
  async wait(
    subject: Subject,
    { waitMs, signal }: { waitMs: number; signal: AbortSignal },
  ): Promise<Found | undefined> {
    if (signal.aborted || waitMs <= 0) return undefined;
    const { promise, resolve, reject } = Promise.withResolvers<Found | undefined>();
    const waiter: Waiter<Subject, Found> = { subject, resolve, reject };
    const giveUp = () => resolve(undefined);
    const timer = setTimeout(giveUp, waitMs);
    signal.addEventListener('abort', giveUp, { once: true });
    this.#waiters.add(waiter);
    if (!this.#isRunning) void this.#run();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
      this.#waiters.delete(waiter);
    }
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiters.size > 0) {
      await new Promise((resolve) => setTimeout(resolve, this.#options.everyMs));
      await this.#pollOnce([...this.#waiters]);
    }
    this.#isRunning = false;
  }

  async #pollOnce(waiters: readonly Waiter<Subject, Found>[]): Promise<void> {
    if (waiters.length === 0) return;
    try {
      const found = await this.#options.poll(waiters.map((waiter) => waiter.subject));
      for (const [index, waiter] of waiters.entries()) {
        const result = found[index];
        if (result !== undefined) waiter.resolve(result);
      }
    } catch (error) {
      for (const waiter of waiters) waiter.reject(error);
    }
  }
}
