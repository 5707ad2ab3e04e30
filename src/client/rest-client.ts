// Calls /v1 by the contract's table of operations: typed, with time limits, one token, one gate for Retry-After. It
// repeats a call only after a 401 with a newer token; the caller decides about every other retry.
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, buildConnector, type Dispatcher, errors, request as send } from 'undici';
import { HEADER } from '../contract/fields/headers.ts';
import { type OperationSpec, operationUrl, type UrlParts } from '../contract/operations/operation.ts';
import {
  contractOperations,
  type OperationId,
  type OperationOutput,
  type OperationRequest,
} from '../contract/operations/operations.ts';
import { ApiClock } from './api-clock.ts';
import { ApiProblem, problemFromAnswer } from './api-problem.ts';
import { RetryGate, SilenceGuard, WHOLE_SERVICE } from './call-guards.ts';

/** The token, or the file that it is read from again and again. */
type TokenOption = { tokenFile: string; token?: never } | { token: string; tokenFile?: never };

export type RestClientOptions = TokenOption & CommonOptions;

interface CommonOptions {
  /** The address of the API; slashes at its end do not count. */
  apiUrl: string;
  /** Authorities for an https address. Default, and while there is no such file: those that Node knows. */
  caFile?: string | undefined;
  /** The address is the near end of a tunnel whose far end is known: the certificate is not compared with it. */
  isTunnel?: boolean;
  /** Default `beatkeeper-operator/1`. */
  userAgent?: string;
  /** Time limit of a whole call that states none. Default 10,000. */
  timeoutMs?: number;
  gate?: RetryGate;
  onCall?: (call: { operation: OperationId | 'sendBeat'; code: string; seconds: number }) => void;
}

export interface CallOptions {
  /** Id or name; sent as `Service-Project`. */
  project?: string;
  /** Default: a random one. */
  correlationId?: string;
  timeoutMs?: number;
  /** The answer may come late: its absence says nothing about the API. Default false. */
  isLongPoll?: boolean;
  signal?: AbortSignal;
}

export interface Beat {
  /** The beat counts once, however often it is sent. */
  idempotencyKey: string;
  body: object;
}

export type BeatOptions = Pick<CallOptions, 'correlationId' | 'timeoutMs' | 'signal'>;

export interface ApiAnswer<Id extends OperationId> {
  /** 200, 201, 202 or 204. */
  status: number;
  body: OperationOutput<Id>;
  /** The time of the answer by the clock of the API, to the second; NaN if it states none. */
  dateMs: number;
}

/** A call waits for a gate that opens within this time; otherwise it is refused at once. */
const PATIENCE_MS = 1000;

const OPERATIONS = contractOperations();

export class RestClient {
  readonly #options: RestClientOptions;
  readonly #apiUrl: string;
  readonly #agent: Agent;
  readonly #token: TokenSource;
  readonly #userAgent: string;
  readonly #gate: RetryGate;
  readonly #silence = new SilenceGuard();
  readonly #clock = new ApiClock();

  constructor(options: RestClientOptions) {
    this.#options = options;
    this.#apiUrl = options.apiUrl.replace(/\/+$/, '');
    this.#token =
      options.token === undefined ? new FileToken(options.tokenFile) : new FixedToken(options.token);
    this.#userAgent = options.userAgent ?? 'beatkeeper-operator/1';
    this.#gate = options.gate ?? new RetryGate();
    this.#agent = new Agent({
      allowH2: false,
      connections: 32,
      keepAliveTimeout: 30_000,
      connect: options.isTunnel ? { ...CONNECT, rejectUnauthorized: false } : connectorOf(options.caFile),
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /**
   * Calls an operation. Throws ApiProblem for every answer that is not 2xx, when no answer comes within the time limit,
   * and at once while Retry-After forbids calls or the API is silent. An aborted `signal` throws its reason.
   */
  async call<Id extends OperationId>(
    operation: Id,
    request: OperationRequest<Id>,
    options: CallOptions = {},
  ): Promise<ApiAnswer<Id>> {
    await this.#passGate(options.project ?? WHOLE_SERVICE, options.signal);
    const scope = options.project ?? WHOLE_SERVICE;
    const call = () => this.#measured(operation, scope, () => this.#send(operation, request, options));
    return await (options.isLongPoll ? this.#silence.listen(call) : this.#silence.run(call));
  }

  /**
   * Sends a beat to a publish address, whose UUID is the only credential. Throws like `call`; what the service asks for with
   * Retry-After holds up this monitor alone. `body`: a structured beat.
   */
  async sendBeat(address: string, beat: Beat, options: BeatOptions = {}): Promise<void> {
    const { idempotencyKey, body } = beat;
    const request = {
      url: `/ping/${encodeURIComponent(address)}`,
      method: 'POST',
      headers: headersOf({ body, idempotencyKey }, { ...options, userAgent: this.#userAgent }),
      body: JSON.stringify(body),
    };
    const send = () =>
      this.#withinLimit(options, async (signal) => {
        const answer = await this.#transfer(request, signal);
        const text = await answer.body.text();
        const { statusCode: status, headers } = answer;
        if (status < 200 || status >= 300) throw problemFromAnswer(status, text, retryAfterIn(headers));
        return { status };
      });
    await this.#silence.run(() => this.#measured('sendBeat', WHOLE_SERVICE, send));
  }

  async #measured<Answer extends { status: number }>(
    operation: OperationId | 'sendBeat',
    scope: string,
    send: () => Promise<Answer>,
  ): Promise<Answer> {
    const startedMs = performance.now();
    let code = 'none';
    try {
      const answer = await send();
      code = String(answer.status);
      return answer;
    } catch (error) {
      if (error instanceof ApiProblem) {
        code = error.status === 0 ? error.code : String(error.status);
        if (operation !== 'sendBeat') this.#keepRetryAfter(error, scope);
      }
      throw error;
    } finally {
      this.#options.onCall?.({ operation, code, seconds: (performance.now() - startedMs) / 1000 });
    }
  }

  /**
   * The time by the clock of the API, to the second. Whatever is compared with times of the API counts by it: the clock of
   * this machine may be wrong.
   */
  get nowMs(): number {
    return this.#clock.nowMs;
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
      const detail = 'The API asked for a pause (Retry-After), which is not over yet.';
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

  /**
   * A 429 is about who calls where: whatever a project has used up stops its calls alone. A 503 is about the service, unless it
   * names a jurisdiction: calls for others go on.
   */
  #keepRetryAfter({ status, retryAfterSeconds, jurisdiction }: ApiProblem, scope: string): void {
    if (retryAfterSeconds === undefined) return;
    if (status === 429) this.#gate.shut(scope, retryAfterSeconds);
    if (status === 503 && jurisdiction === undefined) this.#gate.shut(WHOLE_SERVICE, retryAfterSeconds);
  }

  async #send<Id extends OperationId>(
    operation: Id,
    request: OperationRequest<Id>,
    options: CallOptions,
  ): Promise<ApiAnswer<Id>> {
    return await this.#withinLimit(options, async (signal) => {
      const token = await this.#token.current();
      const answer = await this.#exchange(operation, request, { ...options, signal, token });
      this.#clock.hear(answer.headers.date);
      if (answer.statusCode !== 401) return await readAnswer<Id>(answer);
      // The token was rotated a moment ago. Nothing was done, so even a POST may be sent again.
      const fresh = await this.#token.refresh();
      if (fresh === token) return await readAnswer<Id>(answer);
      await answer.body.dump();
      return await readAnswer<Id>(
        await this.#exchange(operation, request, { ...options, signal, token: fresh }),
      );
    });
  }

  /** Throws ApiProblem where nothing was sent, or no answer came in time. */
  async #withinLimit<Answer>(
    options: Pick<CallOptions, 'timeoutMs' | 'signal'>,
    send: (signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    const limitMs = options.timeoutMs ?? this.#options.timeoutMs ?? 10_000;
    const timeout = AbortSignal.timeout(limitMs);
    const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
    try {
      return await send(signal);
    } catch (error) {
      if (error instanceof ApiProblem) throw error;
      if (options.signal?.aborted) throw options.signal.reason;
      if (isUnsendable(error)) {
        const detail = `The call cannot be sent: ${describe(error)}.`;
        throw new ApiProblem({ status: 0, code: 'not_sent', detail }, { cause: error });
      }
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
    const exchange = {
      url: operationUrl(spec, parts),
      method: spec.method,
      headers: headersOf(parts, { ...options, userAgent: this.#userAgent }),
      body: parts.body === undefined ? null : JSON.stringify(parts.body),
    };
    return await this.#transfer(exchange, options.signal);
  }

  async #transfer({ url, ...exchange }: Exchange, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    return await send(`${this.#apiUrl}${url}`, { ...exchange, dispatcher: this.#agent, signal });
  }
}

interface Exchange {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: string | null;
}

const CONNECT = { timeout: 5000, keepAlive: true, keepAliveInitialDelay: 15_000 };

/** Reads the authorities at each connection: they are replaced with the certificate, and connections are few. */
function connectorOf(caFile: string | undefined): buildConnector.connector {
  if (caFile === undefined) return buildConnector(CONNECT);
  return (options, callback) => {
    readAuthorities(caFile).then(
      (ca) => buildConnector({ ...CONNECT, ca })(options, callback),
      (error: Error) => callback(error, null),
    );
  };
}

async function readAuthorities(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

interface RequestParts extends UrlParts {
  body?: unknown;
  idempotencyKey?: string;
  ifMatch?: string;
}

function headersOf(
  request: Omit<RequestParts, keyof UrlParts>,
  options: CallOptions & { token?: string; userAgent: string },
): Record<string, string> {
  const { body, idempotencyKey, ifMatch } = request;
  return {
    ...(options.token === undefined ? {} : { authorization: `Bearer ${options.token}` }),
    accept: 'application/json',
    'user-agent': options.userAgent,
    [HEADER.correlationId]: options.correlationId ?? randomUUID(),
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    ...(options.project === undefined ? {} : { [HEADER.project]: encodeHeader(options.project) }),
    ...(idempotencyKey === undefined ? {} : { [HEADER.idempotencyKey]: idempotencyKey }),
    ...(ifMatch === undefined ? {} : { [HEADER.ifMatch]: ifMatch }),
  };
}

/** UTF-8 bytes as Latin-1 characters: HTTP carries names that are not ASCII this way. */
function encodeHeader(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

async function readAnswer<Id extends OperationId>(answer: Dispatcher.ResponseData): Promise<ApiAnswer<Id>> {
  const { statusCode: status, headers } = answer;
  const text = await answer.body.text();
  if (status < 200 || status >= 300) throw problemFromAnswer(status, text, retryAfterIn(headers));
  // The API answers by the same schemas, and its own tests check each answer against them.
  const body = (text === '' ? undefined : JSON.parse(text)) as OperationOutput<Id>;
  return { status, body, dateMs: Date.parse(String(headers.date)) };
}

function retryAfterIn({ 'retry-after': value }: Dispatcher.ResponseData['headers']): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

/** A header or a path that HTTP does not allow, or a token that cannot be read: no byte of the call has left. */
function isUnsendable(error: unknown): boolean {
  return (
    error instanceof URIError || error instanceof errors.InvalidArgumentError || error instanceof NoToken
  );
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Node reports the failures of several addresses as an AggregateError without a message.
  if (error.message === '' && 'code' in error) return String(error.code);
  return error.message;
}

const FRESH_TOKEN_MS = 30_000;

class NoToken extends Error {
  override readonly name = 'NoToken';
}

interface TokenSource {
  /** Throws NoToken if it cannot be read. */
  current(): Promise<string>;
  /** The token after a 401. */
  refresh(): Promise<string>;
}

class FixedToken implements TokenSource {
  readonly #token: string;

  constructor(token: string) {
    this.#token = token;
  }

  async current(): Promise<string> {
    return this.#token;
  }

  async refresh(): Promise<string> {
    return this.#token;
  }
}

/** A token from a file, which the kubelet replaces before the token expires. */
class FileToken implements TokenSource {
  readonly #file: string;
  #token: string | undefined;
  #readAtMs = 0;

  constructor(file: string) {
    this.#file = file;
  }

  /** The token, read at most half a minute ago. Throws NoToken if the file cannot be read. */
  async current(): Promise<string> {
    if (this.#token !== undefined && performance.now() - this.#readAtMs < FRESH_TOKEN_MS) return this.#token;
    return await this.refresh();
  }

  /** Reads the file now: after a 401. */
  async refresh(): Promise<string> {
    // The old token is kept until the new one is read: the file may be in the middle of its replacement.
    const token = await readFile(this.#file, 'utf8').then(
      (text) => text.trim(),
      (cause: Error) => {
        throw new NoToken(cause.message, { cause });
      },
    );
    this.#token = token;
    this.#readAtMs = performance.now();
    return token;
  }
}
