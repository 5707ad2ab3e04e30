// Requests to one token issuer, for its keys or for reviews of its tokens. One that gets no answer is IssuerUnreachable,
// and for a second the next ones fail with it at once: an issuer that is away is not asked for each call.
import { readFile } from 'node:fs/promises';
import { Agent, fetch } from 'undici';

const TIMEOUT_MS = 3_000;
/** After a failed request. */
const PAUSE_MS = 1_000;
/** Further requests wait for these, within their time limit. */
const MOST_CONNECTIONS = 8;

export interface IssuerAccess {
  /** `iss` of the tokens. */
  issuer: string;
  /** PEM file of the authorities of the issuer's certificate; read again after a failure. */
  caFile?: string;
  /** File with a bearer token for the requests; read again at each one. */
  tokenFile?: string;
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
  #agent: Promise<Agent> | undefined;
  #pausedUntilMs = 0;
  #lastFailure: unknown;

  constructor(access: IssuerAccess) {
    this.#access = access;
  }

  /** The JSON text of a success. With a body it is a POST. Rejects with IssuerUnreachable. */
  async request(url: string, body?: object): Promise<string> {
    if (performance.now() < this.#pausedUntilMs) {
      throw new IssuerUnreachable(this.#access.issuer, this.#lastFailure);
    }
    try {
      const response = await fetch(url, {
        method: body ? 'POST' : 'GET',
        headers: await this.#headers(),
        body: body && JSON.stringify(body),
        redirect: 'error',
        dispatcher: await this.#openAgent(),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`The issuer answered ${response.status}.`);
      JSON.parse(text);
      return text;
    } catch (cause) {
      throw this.unreachable(cause);
    }
  }

  /** The error for an answer that cannot be used. It begins the pause, as a missing answer does. */
  unreachable(cause: unknown): IssuerUnreachable {
    this.#pausedUntilMs = performance.now() + PAUSE_MS;
    this.#lastFailure = cause;
    // The issuer's authorities may have changed: the next request reads them again.
    void this.close();
    return new IssuerUnreachable(this.#access.issuer, cause);
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
