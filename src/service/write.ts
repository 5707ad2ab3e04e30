// One write of the API as one transaction: idempotency record and effect commit together (completion.md 2).
// What this does not do: parse requests, make bodies. The api hands in both.
import type { Connection } from '../store/pool.ts';

/** An answer as the api sends it. `body` is the wire body. */
export interface Answer {
  status: number;
  headers?: Record<string, string>;
  body?: unknown;
  /** The body that a replay gets, when it differs: secrets left out. */
  replayBody?: unknown;
}

/** A write in a transaction at the database's time `nowMs`. It may be run again: no effect outside of `tx`. */
export type WriteWork<T> = (tx: Connection, nowMs: number) => Promise<T>;

/**
 * Runs one write in one transaction, under the call's idempotency key where the operation has one, and makes the
 * answer from its result inside of the transaction. A replay answers from the record and runs nothing.
 */
export type Write = <T>(work: WriteWork<T>, present: (result: T) => Answer) => Promise<Answer>;
