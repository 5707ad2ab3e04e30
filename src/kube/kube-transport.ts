// HTTP to the Kubernetes API: calls, time limits, errors. It knows no kinds, and repeats a call only after a 401.

import type { KubeConfig } from '@kubernetes/client-node';
import { type Dispatcher, request as send } from 'undici';
import { type KubeConnection, KubeConnections } from './kube-connection.ts';
import { KubeError, kubeErrorFromAnswer } from './kube-error.ts';
import type { KubeMetrics } from './kube-metrics.ts';

export interface KubeTransportOptions {
  /** Called again after a 401, to load rotated credentials: `() => loadKubeConfig(path)`. */
  loadConfig: () => KubeConfig;
  /** `name/version`; its first part is the default field manager. */
  userAgent: string;
  /** Time limit of a call that sets none, in milliseconds. Default 10,000. */
  requestTimeoutMs?: number;
  metrics?: KubeMetrics;
}

export interface KubeRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path under the cluster's address: `/api/v1/nodes`. */
  path: string;
  query?: Record<string, string | number | boolean | undefined>;
  body?: object;
  /** Default `application/json`. */
  contentType?: string;
  timeoutMs?: number;
  signal?: AbortSignal;
  /** Of `streamLines`: called when the server has begun a 2xx answer. */
  onOpen?: (() => void) | undefined;
}

type Answer = Dispatcher.ResponseData;

/** A broken peer must not fill memory. A watch event has one object, escaped; etcd's default limit for one is 1.5 MiB. */
const maxLineLength = 16 * 1024 * 1024;

export class KubeTransport {
  readonly #connections: KubeConnections;
  readonly #userAgent: string;
  readonly #requestTimeoutMs: number;
  readonly #metrics: KubeMetrics | undefined;

  constructor(options: KubeTransportOptions) {
    this.#connections = new KubeConnections(options.loadConfig);
    this.#userAgent = options.userAgent;
    this.#requestTimeoutMs = options.requestTimeoutMs ?? 10_000;
    this.#metrics = options.metrics;
  }

  /** Returns the parsed JSON of a 2xx answer. Throws KubeError, or the reason of `signal` if that aborts. */
  async request(request: KubeRequest): Promise<unknown> {
    const limit = new CallLimit(request.signal, request.timeoutMs ?? this.#requestTimeoutMs);
    try {
      const answer = await this.#open(request, limit.signal);
      const text = await answer.body.text();
      if (text === '') return {};
      const parsed: unknown = JSON.parse(text);
      return parsed;
    } catch (error) {
      throw limit.explain(error, request);
    } finally {
      limit.end();
    }
  }

  /**
   * Yields the lines of a 2xx answer until it ends. Throws as `request` does. The time limit covers the wait for the
   * answer's head; after that only `signal` ends the stream.
   */
  async *streamLines(request: KubeRequest): AsyncGenerator<string> {
    const limit = new CallLimit(request.signal, request.timeoutMs ?? this.#requestTimeoutMs);
    try {
      const answer = await this.#open(request, limit.signal);
      limit.stopTimer();
      request.onOpen?.();
      yield* splitLines(answer.body);
    } catch (error) {
      throw limit.explain(error, request);
    } finally {
      limit.end();
    }
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    await this.#connections.close();
  }

  /** Returns a 2xx answer with its body unread. */
  async #open(request: KubeRequest, signal: AbortSignal): Promise<Answer> {
    const connection = await this.#connections.current();
    let answer = await this.#send(connection, request, signal);
    if (answer.statusCode === 401) {
      // The token was probably rotated a moment ago. The server has done nothing, so even a POST may be sent again.
      await answer.body.dump();
      answer = await this.#send(await this.#connections.refresh(connection), request, signal);
    }
    if (answer.statusCode >= 200 && answer.statusCode < 300) return answer;
    const retryAfter = answer.headers['retry-after'];
    const retryAfterText = Array.isArray(retryAfter) ? retryAfter[0] : retryAfter;
    throw kubeErrorFromAnswer(answer.statusCode, await answer.body.text(), retryAfterText);
  }

  async #send(connection: KubeConnection, request: KubeRequest, signal: AbortSignal): Promise<Answer> {
    const stopTimer = this.#metrics?.requestSeconds.startTimer({ method: request.method });
    let code = 'none';
    try {
      const sending = send(`${connection.server}${request.path}${queryText(request.query)}`, {
        method: request.method,
        dispatcher: connection.dispatcher,
        headers: this.#headers(connection, request),
        body: request.body === undefined ? null : JSON.stringify(request.body),
        signal,
      });
      const answer = await untilAborted(sending, signal);
      code = String(answer.statusCode);
      return answer;
    } finally {
      stopTimer?.();
      this.#metrics?.requests.inc({ method: request.method, code });
    }
  }

  #headers(connection: KubeConnection, request: KubeRequest): Record<string, string> {
    const headers: Record<string, string> = { accept: 'application/json', 'user-agent': this.#userAgent };
    if (request.body !== undefined) headers['content-type'] = request.contentType ?? 'application/json';
    return { ...headers, ...connection.headers };
  }
}

/** Joins the caller's signal and a timer in one signal. `end` removes its listener from the caller's signal. */
class CallLimit {
  readonly #abort = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #timeoutMs: number;
  #timer: NodeJS.Timeout | undefined;
  #timedOut: boolean = false;

  constructor(outer: AbortSignal | undefined, timeoutMs: number) {
    this.#outer = outer;
    this.#timeoutMs = timeoutMs;
    this.#timer = setTimeout(() => {
      this.#timedOut = true;
      this.#abort.abort();
    }, timeoutMs);
    if (outer?.aborted) this.#abortByCaller();
    else outer?.addEventListener('abort', this.#abortByCaller, { once: true });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  end(): void {
    this.stopTimer();
    this.#outer?.removeEventListener('abort', this.#abortByCaller);
  }

  explain(error: unknown, request: KubeRequest): unknown {
    if (error instanceof KubeError) return error;
    if (this.#outer?.aborted) return this.#outer.reason;
    const what = `${request.method} ${request.path}`;
    const reason = this.#timedOut ? 'Timeout' : 'Unreachable';
    const why = this.#timedOut ? `no answer within ${this.#timeoutMs} ms` : describe(error);
    return new KubeError(`${what}: ${why}`, { status: 0, reason }, { cause: error });
  }

  readonly #abortByCaller = (): void => this.#abort.abort();
}

/**
 * undici heeds a signal only after it has connected, and a black hole delays that until the connect timeout. This
 * function does not wait for it; undici then never sends the request.
 */
async function untilAborted(sending: Promise<Answer>, signal: AbortSignal): Promise<Answer> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([sending, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
    if (signal.aborted) sending.then(({ body }) => body.destroy()).catch(() => undefined);
  }
}

/** The lines of a UTF-8 stream, without their newline. Skips empty lines, and a last one that has no newline. */
export async function* splitLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > maxLineLength) throw new RangeError('A line of the answer is longer than 16 MiB.');
    for (const line of lines) {
      if (line.trim() !== '') yield line;
    }
  }
}

function queryText(query: KubeRequest['query']): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) params.set(name, String(value));
  }
  const text = params.toString();
  return text === '' ? '' : `?${text}`;
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // For several addresses Node throws an AggregateError with an empty message.
  if (error.message === '' && 'code' in error) return String(error.code);
  return error.message;
}
