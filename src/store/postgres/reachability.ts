// Whether a database answers, as this process knows it. Who can go on without a database that is away asks here first, so
// that it costs nobody a time-out again and again.
import { afterReading } from './after-reading.ts';
import type { Pool } from './pool.ts';

/** Longer than a busy machine takes for a connection and a statement that does nothing. */
export const PROBE_LIMIT_MS = 3_000;
/** Of a read, before a probe asks. */
const PATIENCE_MS = 1_000;
/** Between two probes of a database that is away. */
const PROBE_PAUSE_MS = 250;

/** A probe had no answer: nobody waits for the database any more. */
class DatabaseAway extends Error {
  readonly code = 'ETIMEDOUT';
}

export class Reachability {
  readonly #open: () => Pool;
  /** A connection of its own: a busy pool must not look like a database that is away. */
  #pool: Pool | undefined;
  #isAway = false;
  #isProbing = false;
  #probedAt = Number.NEGATIVE_INFINITY;

  /** `open` is called with the first probe. */
  constructor(open: () => Pool) {
    this.#open = open;
  }

  /** Whether the last probe had no answer. The question itself begins the next one. */
  isAway(): boolean {
    if (this.#isAway && performance.now() - this.#probedAt >= PROBE_PAUSE_MS) this.suspect();
    return this.#isAway;
  }

  /** The result of a read, or a rejection as soon as a probe has had no answer either. */
  async orAway<Result>(read: Promise<Result>): Promise<Result> {
    const { promise: away, reject } = Promise.withResolvers<never>();
    const startedAt = performance.now();
    const watch = setInterval(() => {
      if (performance.now() - startedAt < PATIENCE_MS) return;
      this.suspect();
      if (this.#isAway) reject(new DatabaseAway());
    }, PROBE_PAUSE_MS);
    try {
      return await Promise.race([read, away]);
    } finally {
      clearInterval(watch);
    }
  }

  /** Somebody has had no answer: a probe finds out whether the database is away. */
  suspect(): void {
    if (this.#isProbing) return;
    this.#isProbing = true;
    let isOver = false;
    const giveUp = () => {
      if (!isOver) this.#isAway = true;
    };
    // The answer may wait in the socket, because the event loop has stood still.
    const limit = setTimeout(() => afterReading(giveUp), PROBE_LIMIT_MS);
    const end = (isAway: boolean) => {
      isOver = true;
      clearTimeout(limit);
      this.#isAway = isAway;
      this.#isProbing = false;
      this.#probedAt = performance.now();
    };
    this.#pool ??= this.#open();
    const pool = this.#pool;
    const ask = () => pool.query('select');
    // The connection of the last probe may have broken since: that says nothing about the database of now.
    ask()
      .catch(ask)
      .then(
        () => end(false),
        () => end(true),
      );
  }

  async end(): Promise<void> {
    await this.#pool?.end();
  }
}
