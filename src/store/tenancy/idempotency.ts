// idempotency_records: the answer of a write, kept for 24 hours under the caller's key. The row is inserted before the
// effect and committed with it, so its unique key is the lock between concurrent duplicates. Bodies are sealed: they
// hold addresses of callbacks, which are stored nowhere in clear.
import { ProblemError } from '../../domain/problem.ts';
import { IDEMPOTENCY_HOURS } from '../../domain/retention.ts';
import { codeOf, SQLSTATE } from '../postgres/database-error.ts';
import { isDistributed } from '../postgres/engine.ts';
import { fromMillis, NOW_MS } from '../postgres/moments.ts';
import type { Connection, Queryable } from '../postgres/pool.ts';
import { placeOf, type SecretBox } from '../postgres/secret-box.ts';
import { limitLockWait } from '../postgres/shards.ts';

/** Longest wait for a concurrent duplicate on another replica. Short: a waiting call holds a connection. */
const DUPLICATE_WAIT_MS = 250;
const WINDOW = `interval '${IDEMPOTENCY_HOURS.calls} hours'`;
const WINDOW_MS = IDEMPOTENCY_HOURS.calls * 3_600_000;

export interface IdempotencyGuard {
  /** The project, or the organization for writes that are in no project. */
  scopeId: string;
  key: string;
  /** SHA-256 of the request. */
  fingerprint: Buffer;
  /** Seals the stored body. */
  secrets: SecretBox;
}

/** The stored part of an answer. The api writes and reads it; its body is opaque here. */
export interface KeptAnswer {
  status: number;
  headers: Record<string, string>;
  /** Undefined without a body. */
  body: unknown;
}

/** A call that repeats an earlier one. */
export interface Replay {
  /** The answer to the earlier one. */
  replay: KeptAnswer;
}

/** What a database knows of a key: the answer of the same request, or that another request has used it. */
export type KnownKey = Replay | 'of_another_request' | undefined;

/** Undefined: nobody has used the key inside the window. */
export async function lookUpKey(db: Queryable, guard: IdempotencyGuard): Promise<KnownKey> {
  const { rows } = await db.query<KeptColumns>({
    name: 'find-answer',
    text: `select fingerprint, status, headers, body_box from idempotency_records
      where scope_id = $1 and key = $2 and created_at > clock_timestamp() - ${WINDOW}`,
    values: [guard.scopeId, guard.key],
  });
  const [row] = rows;
  if (!row) return undefined;
  const { fingerprint, status, headers, body_box: box } = row;
  if (!fingerprint.equals(guard.fingerprint)) return 'of_another_request';
  const body: unknown = box ? JSON.parse(guard.secrets.open(box, answerPlace(guard))) : undefined;
  return { replay: { status, headers, body } };
}

/**
 * The answer of an earlier call with this key; undefined when there is none inside the window.
 * Throws `idempotency_conflict` where the earlier call was another request.
 */
export async function findReplay(db: Queryable, guard: IdempotencyGuard): Promise<Replay | undefined> {
  const known = await lookUpKey(db, guard);
  if (known === 'of_another_request') throw keyOfAnotherRequest();
  return known;
}

interface KeptColumns {
  fingerprint: Buffer;
  status: number;
  headers: Record<string, string>;
  body_box: Buffer | null;
}

/** The associated data of the sealed body: it does not open in another record. */
function answerPlace({ scopeId, key }: IdempotencyGuard): string {
  return placeOf(scopeId, key, 'answer');
}

/**
 * Takes the key for this transaction and reads the clock, or finds the answer that a duplicate has committed.
 * Waits a moment for a duplicate that has not committed; then throws `conflict`, retryable.
 */
export async function claimIdempotencyKey(
  tx: Connection,
  guard: IdempotencyGuard,
): Promise<{ nowMs: number } | Replay> {
  const nowMs = await insertClaim(tx, guard);
  if (nowMs !== undefined) return { nowMs };
  const found = await findReplay(tx, guard);
  // Expired between the two statements: the next attempt takes the key.
  if (!found) throw duplicateIsRunning();
  return found;
}

// A short lock_timeout: set before the insert and restored after it, in the order in which one part of the statement
// reads another. Status 0 is never visible: the row commits only after storeAnswer.
const CLAIM = `with before as materialized (select current_setting('lock_timeout') as value),
  short as materialized (select value, set_config('lock_timeout', '${DUPLICATE_WAIT_MS}ms', true) from before),
  claimed as (
    insert into idempotency_records as r (scope_id, key, fingerprint, status, created_at)
    select $1, $2, $3, 0, clock_timestamp() from short
    on conflict (scope_id, key) do update
      set fingerprint = excluded.fingerprint, status = 0, headers = '{}', body_box = null,
        created_at = excluded.created_at
      where r.created_at <= clock_timestamp() - ${WINDOW}
    returning ${NOW_MS} as now_ms)
  select claimed.now_ms, set_config('lock_timeout', short.value, true) from short left join claimed on true`;

/**
 * On Citus, which takes no clock in a claim, and sets a time limit at its machines only where it is told to. The duplicate
 * that we may wait for is at the machine of the scope.
 */
const CLAIM_IN_SHARD = `insert into idempotency_records as r (scope_id, key, fingerprint, status, created_at)
  values ($1, $2, $3, 0, ${fromMillis('$4')})
  on conflict (scope_id, key) do update
    set fingerprint = excluded.fingerprint, status = 0, headers = '{}', body_box = null, created_at = excluded.created_at
    where r.created_at <= ${fromMillis('$5')}`;

async function insertClaimInShard(tx: Connection, guard: IdempotencyGuard): Promise<number | undefined> {
  const { rows } = await tx.query<{ now_ms: number; value: string }>(
    `select ${NOW_MS} as now_ms, current_setting('lock_timeout') as value`,
  );
  const [before] = rows;
  if (!before) throw new Error('The database answered without a time.');
  const { now_ms: nowMs, value } = before;
  await limitLockWait(tx, DUPLICATE_WAIT_MS);
  const { rowCount } = await tx.query(CLAIM_IN_SHARD, [
    ...[guard.scopeId, guard.key, guard.fingerprint, nowMs, nowMs - WINDOW_MS],
  ]);
  await tx.query(`set local lock_timeout = '${value}'`);
  return rowCount === 1 ? nowMs : undefined;
}

async function insertClaim(tx: Connection, guard: IdempotencyGuard): Promise<number | undefined> {
  try {
    if (isDistributed()) return await insertClaimInShard(tx, guard);
    const { rows } = await tx.query<{ now_ms: number | null }>({
      name: 'claim-idempotency-key',
      text: CLAIM,
      values: [guard.scopeId, guard.key, guard.fingerprint],
    });
    return rows[0]?.now_ms ?? undefined;
  } catch (error) {
    if (codeOf(error) === SQLSTATE.lockNotAvailable) throw duplicateIsRunning(error);
    throw error;
  }
}

export async function storeAnswer(
  tx: Connection,
  guard: IdempotencyGuard,
  answer: KeptAnswer,
): Promise<void> {
  await tx.query({
    name: 'store-answer',
    text: 'update idempotency_records set status = $3, headers = $4, body_box = $5 where scope_id = $1 and key = $2',
    values: [
      guard.scopeId,
      guard.key,
      answer.status,
      JSON.stringify(answer.headers),
      answer.body === undefined ? null : guard.secrets.seal(JSON.stringify(answer.body), answerPlace(guard)),
    ],
  });
}

/** 409: the key belongs to another request. */
export function keyOfAnotherRequest(): ProblemError {
  return new ProblemError('idempotency_conflict', {
    detail: 'This Idempotency-Key was used for a different request: use a new key for a new request.',
  });
}

/** 409, retryable: the same key is in use at this moment. */
export function duplicateIsRunning(cause?: unknown): ProblemError {
  return new ProblemError('conflict', {
    detail: 'The first call with this Idempotency-Key is still running: try again with the same key.',
    retryAfterSeconds: 1,
    cause,
  });
}
