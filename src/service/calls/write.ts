// One write of the API as one transaction: idempotency record and effect commit together (docs/contract/calls.md).
// The api makes the answers and says what is kept of one; nothing here reads them.
import { ProblemError } from '../../domain/problem.ts';
import type { Connection, Database } from '../../store/postgres/pool.ts';
import { inTransaction, readNow } from '../../store/postgres/transaction.ts';
import {
  claimIdempotencyKey,
  type IdempotencyGuard,
  type KeptAnswer,
  type Replay,
  storeAnswer,
} from '../../store/tenancy/idempotency.ts';

/**
 * Defers a step until everything else is written, the kept answer included. For rows that all writers share (counters
 * of an organization): their locks are then held for little longer than the commit. The step may throw as the work
 * may.
 */
export type AtTheEnd = (step: Step) => void;
type Step = (tx: Connection) => Promise<void>;

/** A write in a transaction, at the database's time `nowMs`. It may run again: it has no effect outside `tx`. */
export type WriteWork<T> = (tx: Connection, nowMs: number, atTheEnd: AtTheEnd) => Promise<T>;

/**
 * Runs one write in one transaction, under the call's idempotency key where the operation has one, and makes the answer
 * from the result inside the transaction. A replay runs nothing. Refusals are thrown, so none is kept.
 */
export type Write<Answer> = <T>(
  work: WriteWork<T>,
  present: (result: T) => Answer,
) => Promise<Answer | Replay>;

export interface WriteOptions<Answer> {
  pool: Database;
  /** Set for a call with an idempotency key. */
  guard?: IdempotencyGuard;
  /** What replays are made from. */
  keep: (answer: Answer) => KeptAnswer;
}

/**
 * The `Write` of one call. It throws `conflict` while a duplicate runs at another replica, and `idempotency_conflict`
 * for the key of another request.
 */
export function createWrite<Answer>({ pool, guard, keep }: WriteOptions<Answer>): Write<Answer> {
  return async (work, present) =>
    await inTransaction(pool, async (tx) => {
      const claim = guard ? await claimIdempotencyKey(tx, guard) : { nowMs: await readNow(tx) };
      if ('replay' in claim) return claim;
      const lastSteps: Step[] = [];
      const answer = present(await work(tx, claim.nowMs, (step) => lastSteps.push(step)));
      if (guard) await storeAnswer(tx, guard, keep(answer));
      for (const step of lastSteps) await step(tx);
      return answer;
    });
}

/** Throws `precondition_failed` (412) when the resource has changed since the caller read the version in `If-Match`. */
export function requireVersion(resource: { version: number }, read: number): void {
  if (resource.version === read) return;
  throw new ProblemError('precondition_failed', {
    detail:
      'The resource has changed since this ETag: read it again, then decide whether to repeat the change.',
  });
}
