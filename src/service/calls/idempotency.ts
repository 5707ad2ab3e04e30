// What makes two calls the same one: the fingerprint of a request, the replay of a stored answer, and the calls that
// run in this process right now (docs/contract/calls.md). The records are in src/store/tenancy/idempotency.ts.
import { createHash } from 'node:crypto';
import { ProblemError } from '../../domain/problem.ts';
import {
  duplicateIsRunning,
  type IdempotencyGuard,
  type StoredAnswer,
} from '../../store/tenancy/idempotency.ts';
import type { Answer } from './write.ts';

export interface FingerprintParts {
  method: string;
  path: string;
  /** Name and value pairs, in any order. */
  query: Iterable<readonly [string, string]>;
  /** The parsed body, before defaults; undefined without one. */
  body: unknown;
}

/** SHA-256 of method, path, sorted query and canonical body: the same request, however its JSON is written. */
export function fingerprintOf({ method, path, query, body }: FingerprintParts): Buffer {
  const pairs = [...query].map(([name, value]) => JSON.stringify([name, value])).sort(byCodeUnits);
  const text = [method, path, pairs.join('&'), canonicalJson(body)].join('\n');
  return createHash('sha256').update(text).digest();
}

/** JSON with the keys of every object in order. Undefined is the empty text. */
export function canonicalJson(value: unknown): string {
  if (value === undefined) return '';
  return JSON.stringify(value, (_key, inner: unknown) => {
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => byCodeUnits(a, b)));
  });
}

function byCodeUnits(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** The stored answer for a duplicate: a 201 as 200, `replayed: true` where the body has it. Throws `idempotency_conflict`. */
export function replayOf(stored: StoredAnswer, guard: IdempotencyGuard): Answer {
  if (!stored.fingerprint.equals(guard.fingerprint)) throw keyOfAnotherRequest();
  const { status, headers, body } = stored;
  const replayed = typeof body === 'object' && body !== null && 'replayed' in body;
  return {
    status: status === 201 ? 200 : status,
    headers,
    body: replayed ? { ...body, replayed: true } : body,
  };
}

/** The keys whose first call runs in this process: a duplicate is refused without a connection to the database. */
export class RunningKeys {
  readonly #running = new Map<string, Buffer>();

  /** Throws `conflict` (retryable) or `idempotency_conflict` while a call with this key runs here. */
  refuseDuplicate(guard: IdempotencyGuard): void {
    const running = this.#running.get(nameOf(guard));
    if (running) throw running.equals(guard.fingerprint) ? duplicateIsRunning() : keyOfAnotherRequest();
  }

  /** Runs `call` as the only one with its key here. Throws as `refuseDuplicate` does. */
  async only<T>(guard: IdempotencyGuard, call: () => Promise<T>): Promise<T> {
    this.refuseDuplicate(guard);
    this.#running.set(nameOf(guard), guard.fingerprint);
    try {
      return await call();
    } finally {
      this.#running.delete(nameOf(guard));
    }
  }
}

function nameOf({ scopeId, key }: IdempotencyGuard): string {
  return `${scopeId} ${key}`;
}

function keyOfAnotherRequest(): ProblemError {
  return new ProblemError('idempotency_conflict', {
    detail: 'This Idempotency-Key was used for a different request: use a new key for a new request.',
  });
}
