// What makes two calls duplicates: the fingerprint of a request, and the keys whose calls run in this process
// (docs/contract/calls.md). The records are in src/store/tenancy/idempotency.ts.
import { createHash } from 'node:crypto';
import {
  duplicateIsRunning,
  type IdempotencyGuard,
  keyOfAnotherRequest,
} from '../../store/tenancy/idempotency.ts';

export interface FingerprintParts {
  method: string;
  path: string;
  /** Name and value pairs, in any order. */
  query: Iterable<readonly [string, string]>;
  /** The parsed body, before defaults; undefined without a body. */
  body: unknown;
  /** Who calls, where the answer is about the caller: another person's call is another request. */
  caller?: string;
}

/** SHA-256 of method, path, sorted query and canonical body: equal for one request, however its JSON is written. */
export function fingerprintOf({ method, path, query, body, caller }: FingerprintParts): Buffer {
  const pairs = [...query].map(([name, value]) => JSON.stringify([name, value])).sort(byCodeUnits);
  const text = [
    method,
    path,
    pairs.join('&'),
    canonicalJson(body),
    ...(caller === undefined ? [] : [caller]),
  ].join('\n');
  return createHash('sha256').update(text).digest();
}

/** JSON with the keys of every object sorted. Undefined becomes the empty text. */
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

/**
 * The keys whose first call runs in this process. A duplicate is refused here, without a connection to the database.
 */
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
