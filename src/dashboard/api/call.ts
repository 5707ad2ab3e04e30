// Calls /v1 with the cookie of the session. No token is ever in reach of this code.
import { operationUrl } from '../../contract/operations/operation.ts';
import type { OperationOutput, OperationRequest } from '../../contract/operations/operations.ts';
import { Fault, faultOf, noAnswer } from './fault.ts';
import { type Called, ROUTES } from './operations.ts';

/** A call without an answer is given up, and can be tried again. */
const PATIENCE_MS = 10_000;

export interface CallOptions {
  /** Of the session; a credential has its own. */
  project?: string | undefined;
  signal?: AbortSignal;
  /** Default 10,000. */
  patienceMs?: number;
}

interface Parts {
  params?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
  idempotencyKey?: string;
  ifMatch?: string;
}

/** Throws Fault. */
export async function call<Id extends Called>(
  operation: Id,
  request: OperationRequest<Id>,
  options: CallOptions = {},
): Promise<OperationOutput<Id>> {
  const [method, path] = ROUTES[operation].split(' ') as [string, `/v1/${string}`];
  const parts: Parts = request;
  const url = operationUrl({ path }, parts);
  const answer = await send(url, {
    method,
    body: parts.body,
    headers: {
      ...(options.project === undefined ? {} : { 'service-project': options.project }),
      ...(parts.idempotencyKey === undefined ? {} : { 'idempotency-key': parts.idempotencyKey }),
      ...(parts.ifMatch === undefined ? {} : { 'if-match': parts.ifMatch }),
    },
    signal: options.signal,
    patienceMs: options.patienceMs,
  });
  return answer as OperationOutput<Id>;
}

interface Sent {
  method: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  patienceMs?: number | undefined;
}

/** The JSON of an answer; undefined where it has none. Throws Fault. */
export async function send(url: string, sent: Sent): Promise<unknown> {
  const limit = AbortSignal.timeout(sent.patienceMs ?? PATIENCE_MS);
  const signal = sent.signal ? AbortSignal.any([sent.signal, limit]) : limit;
  try {
    const response = await fetch(url, {
      method: sent.method,
      headers: {
        accept: 'application/json',
        'x-beatkeeper-dashboard': '1',
        ...(sent.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...sent.headers,
      },
      body: sent.body === undefined ? null : JSON.stringify(sent.body),
      redirect: 'error',
      signal,
    });
    const text = await response.text();
    if (!response.ok) throw faultOf(response, text);
    return text === '' ? undefined : JSON.parse(text);
  } catch (error) {
    if (error instanceof Fault) throw error;
    if (sent.signal?.aborted) throw sent.signal.reason;
    throw noAnswer(limit.aborted);
  }
}
