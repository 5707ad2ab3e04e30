// Requests to one token issuer, for its keys or for reviews of its tokens. One that gets no answer is IssuerUnreachable,
// and for a second the next ones fail with it at once: an issuer that is away is not asked for each call. One that waits
// in vain for a connection, or is refused for there being too many, says nothing about the issuer, and fails alone.
import { readFile } from 'node:fs/promises';
import { Agent, fetch } from 'undici';
import { Places } from './places.ts';

/** For an answer, from when there is a connection. */
const TIMEOUT_MS = 3_000;
/** After a failed request. */
const PAUSE_MS = 1_000;
/** Further requests wait for these, before their own time begins. */
const MOST_CONNECTIONS = 8;

interface IssuerRequest {
  /** Makes it a POST. */
  body?: object;
  /** For how long it waits for a connection. */
  patience?: AbortSignal;
}

export interface IssuerAccess {
  /** `iss` of the tokens. Default: that of the token in `tokenFile`. */
  issuer?: string;
  /** PEM file of the authorities of the issuer's certificate; read again after a failure. */
  caFile?: string;
  /** File with a bearer token for the requests; read again at each one. */
  tokenFile?: string;
}

/** For people. */
export function nameOf({ issuer }: IssuerAccess): string {
  return issuer ?? 'of the own token';
}

/** The issuer did not answer, or its answer is none to the question: nothing is known of the token. */
export class IssuerUnreachable extends Error {
  constructor(issuer: string, cause: unknown) {
    super(`The issuer ${issuer} gave no answer by which a token could be checked.`, { cause });
    this.name = 'IssuerUnreachable';
  }
}

export class IssuerConnection {
  readonly #access: IssuerAccess;
  readonly #timeoutMs: number;
  readonly #places = new Places(MOST_CONNECTIONS);
  #agent: Promise<Agent> | undefined;
  #pausedUntilMs = 0;
  #lastFailure: unknown;

  constructor(access: IssuerAccess, timeoutMs = TIMEOUT_MS) {
    this.#access = access;
    this.#timeoutMs = timeoutMs;
  }

  /** The JSON text of a success. Rejects with IssuerUnreachable. */
  async request(
    url: string,
    { body, patience = AbortSignal.timeout(this.#timeoutMs) }: IssuerRequest = {},
  ): Promise<string> {
    try {
      return await this.#places.run(() => this.#ask(url, body), patience);
    } catch (cause) {
      throw cause instanceof IssuerUnreachable ? cause : new IssuerUnreachable(nameOf(this.#access), cause);
    }
  }

  async #ask(url: string, body: object | undefined): Promise<string> {
    if (performance.now() < this.#pausedUntilMs) {
      throw new IssuerUnreachable(nameOf(this.#access), this.#lastFailure);
    }
    try {
      const response = await fetch(url, {
        method: body ? 'POST' : 'GET',
        headers: await this.#headers(),
        body: body && JSON.stringify(body),
        redirect: 'error',
        dispatcher: await this.#openAgent(),
        signal: AbortSignal.timeout(this.#timeoutMs),
      });
      const text = await response.text();
      if (response.status === 429)
        throw new IssuerUnreachable(nameOf(this.#access), new Error('It answered 429.'));
      if (!response.ok) throw new Error(`The issuer answered ${response.status}.`);
      JSON.parse(text);
      return text;
    } catch (cause) {
      throw cause instanceof IssuerUnreachable ? cause : this.unreachable(cause);
    }
  }

  /** The error for an answer that cannot be used. It begins the pause, as a missing answer does. */
  unreachable(cause: unknown): IssuerUnreachable {
    this.#pausedUntilMs = performance.now() + PAUSE_MS;
    this.#lastFailure = cause;
    // The issuer's authorities may have changed: the next request reads them again.
    void this.close();
    return new IssuerUnreachable(nameOf(this.#access), cause);
  }

  /** Requests under way end by themselves. */
  async close(): Promise<void> {
    const agent = this.#agent;
    this.#agent = undefined;
    await agent?.then((open) => open.close()).catch(() => undefined);
  }

  async #headers(): Promise<Record<string, string>> {
    const { tokenFile } = this.#access;
    const headers = {
      accept: 'application/json, application/jwk-set+json',
      'content-type': 'application/json',
    };
    if (!tokenFile) return headers;
    return { ...headers, authorization: `Bearer ${(await readFile(tokenFile, 'utf8')).trim()}` };
  }

  #openAgent(): Promise<Agent> {
    this.#agent ??= this.#makeAgent();
    return this.#agent;
  }

  async #makeAgent(): Promise<Agent> {
    const { caFile } = this.#access;
    const connect = caFile ? { ca: await readFile(caFile, 'utf8') } : {};
    return new Agent({ connect, connections: MOST_CONNECTIONS });
  }
}
