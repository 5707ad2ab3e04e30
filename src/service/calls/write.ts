// One write of the API as one transaction: idempotency record and effect commit together (docs/contract/calls.md).
// What this does not do: parse requests, make bodies. The api hands in both.
import { readNow } from '../../store/postgres/clock.ts';
import type { Connection, Pool } from '../../store/postgres/pool.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import { claimIdempotencyKey, type IdempotencyGuard, storeAnswer } from '../../store/tenancy/idempotency.ts';
import { replayOf } from './idempotency.ts';

/** An answer as the api sends it. `body` is the wire body. */
export interface Answer {
  status: number;
  headers?: Record<string, string>;
  body?: unknown;
  /** The body that a replay gets, when it differs: secrets left out. */
  replayBody?: unknown;
}

/**
 * Puts a step off until everything else is written, the stored answer too: for rows that all writers share (an
 * organization's counters), which are then held for hardly longer than the commit. It may throw as the work may.
 */
export type AtTheEnd = (step: Step) => void;
type Step = (tx: Connection) => Promise<void>;

/** A write in a transaction at the database's time `nowMs`. It may be run again: no effect outside of `tx`. */
export type WriteWork<T> = (tx: Connection, nowMs: number, atTheEnd: AtTheEnd) => Promise<T>;

/**
 * Runs one write in one transaction, under the call's idempotency key where the operation has one, and makes the
 * answer from its result inside of the transaction. A replay answers from the record and runs nothing.
 */
export type Write = <T>(work: WriteWork<T>, present: (result: T) => Answer) => Promise<Answer>;

/**
 * The `Write` of one call. `guard` is set where the operation has an idempotency key. `present` answers a 2xx:
 * refusals are thrown, so that nothing of them is kept.
 * Throws `conflict` while a duplicate runs on another replica, `idempotency_conflict` for another request's key.
 */
export function runWrite(pool: Pool, guard: IdempotencyGuard | undefined): Write {
  return async (work, present) =>
    await inTransaction(pool, async (tx) => {
      if (!guard) return await perform(tx, { work, present }, await readNow(tx));
      const claim = await claimIdempotencyKey(tx, guard);
      if (claim.stored) return replayOf(claim.stored, guard);
      return await perform(tx, { work, present, guard }, claim.nowMs);
    });
}

async function perform<T>(
  tx: Connection,
  write: { work: WriteWork<T>; present: (result: T) => Answer; guard?: IdempotencyGuard },
  nowMs: number,
): Promise<Answer> {
  const lastSteps: Step[] = [];
  const result = await write.work(tx, nowMs, (step) => lastSteps.push(step));
  const answer = successOnly(write.present(result));
  const { status, headers = {}, body, replayBody = body } = answer;
  if (write.guard) await storeAnswer(tx, write.guard, { status, headers, body: replayBody });
  for (const step of lastSteps) await step(tx);
  return answer;
}

function successOnly(answer: Answer): Answer {
  if (answer.status >= 200 && answer.status < 300) return answer;
  throw new RangeError(`A write presented the status ${answer.status}: throw a ProblemError instead.`);
}
