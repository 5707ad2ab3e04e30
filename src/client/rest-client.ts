// Calls to /v1 by the contract's table of operations: typed, with time limits, one token, one gate for Retry-After.
// It repeats a call only after a 401 with a newer token; who calls decides about everything else.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, type Dispatcher, request as send } from 'undici';
import { HEADER } from '../contract/fields/headers.ts';
import { type OperationSpec, operationUrl, type UrlParts } from '../contract/operations/operation.ts';
import {
  contractOperations,
  type OperationId,
  type OperationOutput,
  type OperationRequest,
} from '../contract/operations/operations.ts';
import { ApiProblem, problemFromAnswer } from './api-problem.ts';
import { RetryGate, WHOLE_SERVICE } from './retry-gate.ts';
import { SilenceGuard } from './silence-guard.ts';
import { TokenSource } from './token-source.ts';

export interface RestClientOptions {
  /** Address of the role api, without a path. */
  apiUrl: string;
  tokenFile: string;
  /** Whole time of a call that names none, milliseconds. Default 10,000. */
  timeoutMs?: number;
  gate?: RetryGate;
  onCall?: (call: { operation: OperationId; code: string; seconds: number }) => void;
}

export interface CallOptions {
  /** Id or name; sent as `Service-Project`. */
  project?: string;
  /** Default: a random one. */
  correlationId?: string;
  timeoutMs?: number;
  /** The answer may take its time: that it does not come says nothing about the API. Default false. */
  isLongPoll?: boolean;
  signal?: AbortSignal;
}

export interface ApiAnswer<Id extends OperationId> {
  /** 200, 201, 202 or 204. */
  status: number;
  body: OperationOutput<Id>;
}

/** A shut gate that opens within this time is waited for; a longer one refuses at once. */
const PATIENCE_MS = 1000;

const OPERATIONS = contractOperations();

export class RestClient {
  readonly #options: RestClientOptions;
  readonly #agent: Agent;
  readonly #token: TokenSource;
  readonly #gate: RetryGate;
  readonly #silence = new SilenceGuard();

  constructor(options: RestClientOptions) {
    this.#options = options;
    this.#token = new TokenSource(options.tokenFile);
    this.#gate = options.gate ?? new RetryGate();
    this.#agent = new Agent({
      allowH2: false,
      connections: 32,
      keepAliveTimeout: 30_000,
      connect: { timeout: 5000, keepAlive: true, keepAliveInitialDelay: 15_000 },
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /**
   * Calls an operation. Throws ApiProblem for every answer that is not 2xx, for none within the time limit, and at
   * once while Retry-After asks to be left alone or the API is silent; an aborted `signal` throws its reason.
   */
  async call<Id extends OperationId>(
    operation: Id,
    request: OperationRequest<Id>,
    options: CallOptions = {},
  ): Promise<ApiAnswer<Id>> {
    await this.#passGate(options.project ?? WHOLE_SERVICE, options.signal);
    const call = () => this.#measured(operation, request, options);
    return await (options.isLongPoll ? this.#silence.listen(call) : this.#silence.run(call));
  }

  async #measured<Id extends OperationId>(
    operation: Id,
    request: OperationRequest<Id>,
    options: CallOptions,
  ): Promise<ApiAnswer<Id>> {
    const startedMs = performance.now();
    let code = 'none';
    try {
      const answer = await this.#send(operation, request, options);
      code = String(answer.status);
      return answer;
    } catch (error) {
      if (error instanceof ApiProblem) {
        code = error.status === 0 ? error.code : String(error.status);
        this.#heed(error, options.project ?? WHOLE_SERVICE);
      }
      throw error;
    } finally {
      this.#options.onCall?.({ operation, code, seconds: (performance.now() - startedMs) / 1000 });
    }
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #passGate(scope: string, signal: AbortSignal | undefined): Promise<void> {
    const waitMs = this.#gate.waitMs(scope);
    if (waitMs === 0) return;
    if (waitMs > PATIENCE_MS) {
      const retryAfterSeconds = Math.ceil(waitMs / 1000);
      const detail = 'The API asked to be left alone for a while.';
      throw new ApiProblem({
        status: 429,
        code: 'service.rate_limited',
        detail,
        retryAfterSeconds,
        retryable: true,
      });
    }
    await delay(waitMs, undefined, signal ? { signal } : {});
  }

  /** A project's own rate limit is no reason to leave the other projects alone. */
  #heed(problem: ApiProblem, scope: string): void {
    if (problem.retryAfterSeconds === undefined || (problem.status !== 429 && problem.status !== 503)) return;
    const isOfProject = problem.limit?.dimension === 'api_requests_per_minute';
    this.#gate.shut(isOfProject ? scope : WHOLE_SERVICE, problem.retryAfterSeconds);
  }

  async #send<Id extends OperationId>(
    operation: Id,
    request: OperationRequest<Id>,
    options: CallOptions,
  ): Promise<ApiAnswer<Id>> {
    const limitMs = options.timeoutMs ?? this.#options.timeoutMs ?? 10_000;
    const timeout = AbortSignal.timeout(limitMs);
    const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
    try {
      const token = await this.#token.current();
      const answer = await this.#exchange(operation, request, { ...options, signal, token });
      if (answer.statusCode !== 401) return await readAnswer<Id>(answer);
      // A token that was rotated a moment ago. Nothing was done, so that even a POST may be sent again.
      const fresh = await this.#token.refresh();
      if (fresh === token) return await readAnswer<Id>(answer);
      await answer.body.dump();
      return await readAnswer<Id>(
        await this.#exchange(operation, request, { ...options, signal, token: fresh }),
      );
    } catch (error) {
      if (error instanceof ApiProblem) throw error;
      if (options.signal?.aborted) throw options.signal.reason;
      if (timeout.aborted) {
        const detail = `The API gave no answer within ${limitMs / 1000} seconds.`;
        throw new ApiProblem({ status: 0, code: 'timeout', detail }, { cause: error });
      }
      const detail = `The API cannot be reached: ${describe(error)}.`;
      throw new ApiProblem({ status: 0, code: 'unreachable', detail }, { cause: error });
    }
  }

  async #exchange<Id extends OperationId>(
    operation: Id,
    request: OperationRequest<Id>,
    options: CallOptions & { token: string; signal: AbortSignal },
  ): Promise<Dispatcher.ResponseData> {
    const spec: OperationSpec = OPERATIONS[operation];
    const parts: RequestParts = request;
    return await send(`${this.#options.apiUrl}${operationUrl(spec, parts)}`, {
      method: spec.method,
      dispatcher: this.#agent,
      headers: headersOf(parts, options),
      body: parts.body === undefined ? null : JSON.stringify(parts.body),
      signal: options.signal,
    });
  }
}

interface RequestParts extends UrlParts {
  body?: unknown;
  idempotencyKey?: string;
  ifMatch?: string;
}

function headersOf(request: RequestParts, options: CallOptions & { token: string }): Record<string, string> {
  const { body, idempotencyKey, ifMatch } = request;
  return {
    authorization: `Bearer ${options.token}`,
    accept: 'application/json',
    'user-agent': 'beatkeeper-operator/1',
    [HEADER.correlationId]: options.correlationId ?? randomUUID(),
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    ...(options.project === undefined ? {} : { [HEADER.project]: encodeHeader(options.project) }),
    ...(idempotencyKey === undefined ? {} : { [HEADER.idempotencyKey]: idempotencyKey }),
    ...(ifMatch === undefined ? {} : { [HEADER.ifMatch]: ifMatch }),
  };
}

/** UTF-8 bytes as Latin-1 characters: how HTTP carries a name that is not ASCII. */
function encodeHeader(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

async function readAnswer<Id extends OperationId>(answer: Dispatcher.ResponseData): Promise<ApiAnswer<Id>> {
  const { statusCode: status, headers } = answer;
  const text = await answer.body.text();
  if (status < 200 || status >= 300) {
    const retryAfter = headers['retry-after'];
    throw problemFromAnswer(status, text, Array.isArray(retryAfter) ? retryAfter[0] : retryAfter);
  }
  // The API answers by the same schemas; its own tests check each answer against them.
  const body = (text === '' ? undefined : JSON.parse(text)) as OperationOutput<Id>;
  return { status, body };
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Node joins the failures of several addresses in an AggregateError without a text.
  if (error.message === '' && 'code' in error) return String(error.code);
  return error.message;
}
