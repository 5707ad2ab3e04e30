// One request and its answer on a pool: status, chosen headers, the first bytes of the body.
// It follows no redirect, retries nothing and ends at the given deadline.
import type { Dispatcher, Pool } from 'undici';
import type { Deadline } from './deadline.ts';

/** The status decides. The body is only shown to people: little of it is read, and the wait for it is short. */
const MAX_BODY_BYTES = 1_024;
const BODY_WAIT_MS = 2_000;

export interface ExchangeRequest {
  path: string;
  headers: Record<string, string>;
  body: string;
}

export type Exchange =
  | {
      state: 'answered';
      statusCode: number;
      answeredAtMs: number;
      retryAfter?: string | string[];
      body: string;
    }
  | { state: 'failed'; error: unknown }
  | { state: 'timeout' };

/**
 * Sends a POST and resolves, never rejects. After the deadline the request is dropped, also while it still waits for
 * a connection. `answeredAtMs` is of `performance.now()`.
 */
export function exchange(pool: Pool, request: ExchangeRequest, deadline: Deadline): Promise<Exchange> {
  return new Promise((resolve) => {
    const handler = new ExchangeHandler(resolve, deadline);
    if (handler.isOver) return;
    pool.dispatch({ ...request, method: 'POST' }, handler);
  });
}

class ExchangeHandler implements Dispatcher.DispatchHandler {
  readonly #resolve: (exchange: Exchange) => void;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #phase: 'running' | 'over' = 'running';
  #controller: Dispatcher.DispatchController | undefined;
  #answer: { statusCode: number; answeredAtMs: number; retryAfter?: string | string[] } | undefined;
  #bodyTimer: NodeJS.Timeout | undefined;

  constructor(resolve: (exchange: Exchange) => void, deadline: Deadline) {
    this.#resolve = resolve;
    const onDeadline = () => this.#settle({ state: 'timeout' });
    if (deadline.isOver) onDeadline();
    else deadline.watch(onDeadline);
  }

  get isOver(): boolean {
    return this.#phase === 'over';
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // The connection may open after the deadline. Nothing is sent on it: the attempt is reported already.
    if (this.isOver) controller.abort(new Error('The attempt is over.'));
    else this.#controller = controller;
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    statusCode: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (statusCode < 200) return;
    this.#answer = { statusCode, answeredAtMs: performance.now(), retryAfter: headers['retry-after'] };
    this.#bodyTimer = setTimeout(() => this.#drop(), BODY_WAIT_MS);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // A copy: the parser reuses its buffer.
    this.#chunks.push(Buffer.from(chunk.subarray(0, MAX_BODY_BYTES - this.#bytes)));
    this.#bytes += chunk.length;
    if (this.#bytes > MAX_BODY_BYTES) this.#drop();
  }

  onResponseEnd(): void {
    this.#settleAnswer();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    // A status that has arrived counts, also if the body breaks off.
    if (this.#answer) this.#settleAnswer();
    else this.#settle({ state: 'failed', error });
  }

  /** Enough was read. The connection is closed, because the body may never end. */
  #drop(): void {
    this.#settleAnswer();
    this.#controller?.abort(new Error('Enough of the body was read.'));
  }

  #settleAnswer(): void {
    if (!this.#answer) return;
    this.#settle({ state: 'answered', ...this.#answer, body: readableText(this.#chunks) });
  }

  #settle(result: Exchange): void {
    if (this.isOver) return;
    this.#phase = 'over';
    clearTimeout(this.#bodyTimer);
    // A status that arrived before the deadline counts.
    if (result.state === 'timeout' && this.#answer) {
      this.#resolve({ state: 'answered', ...this.#answer, body: readableText(this.#chunks) });
    } else {
      this.#resolve(result);
    }
    if (result.state === 'timeout') this.#controller?.abort(new Error('The attempt took too long.'));
  }
}

/** UTF-8 without a character that was cut. NUL becomes U+FFFD, which Postgres and JSON readers accept. */
function readableText(chunks: Buffer[]): string {
  if (chunks.length === 0) return '';
  const text = new TextDecoder().decode(Buffer.concat(chunks), { stream: true });
  return text.replaceAll('\0', '\uFFFD');
}
