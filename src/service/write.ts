// One write of the API as one transaction: idempotency record and effect commit together (completion.md 2).
// What this does not do: parse requests, make bodies. The api hands in both.
import { readNow } from '../store/clock.ts';
import { claimIdempotencyKey, type IdempotencyGuard, storeAnswer } from '../store/idempotency.ts';
import type { Connection, Pool } from '../store/pool.ts';
import { inTransaction } from '../store/transaction.ts';
import { replayOf } from './idempotency.ts';

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

/**
 * The `Write` of one call. `guard` is set where the operation has an idempotency key. `present` answers a 2xx:
 * refusals are thrown, so that nothing of them is kept.
 * Throws `conflict` while a twin runs on another replica, `idempotency_conflict` for another request's key.
 */
export function runWrite(pool: Pool, guard: IdempotencyGuard | undefined): Write {
  return async (work, present) =>
    await inTransaction(pool, async (tx) => {
      if (!guard) return successOnly(present(await work(tx, await readNow(tx))));
      const claim = await claimIdempotencyKey(tx, guard);
      if (claim.stored) return replayOf(claim.stored, guard);
      const answer = successOnly(present(await work(tx, claim.nowMs)));
      await storeAnswer(tx, guard, {
        status: answer.status,
        headers: answer.headers ?? {},
        body: answer.replayBody ?? answer.body,
      });
      return answer;
    });
}

function successOnly(answer: Answer): Answer {
  if (answer.status >= 200 && answer.status < 300) return answer;
  throw new RangeError(`A write presented the status ${answer.status}: throw a ProblemError instead.`);
}
