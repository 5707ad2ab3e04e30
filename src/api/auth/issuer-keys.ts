// The public keys of one token issuer, from `jwksUri` or by discovery: cached, and read again for an unknown key id.
// Keys that cannot be read are IssuerUnreachable: the call is answered with 503, never admitted.
import { readFile } from 'node:fs/promises';
import { createRemoteJWKSet, customFetch, type JWTVerifyGetKey } from 'jose';
import { Agent, fetch } from 'undici';

const TIMEOUT_MS = 3_000;
const KEPT_MS = 10 * 60_000;
/** Between two reads for unknown key ids: a stranger must not make the service call the issuer for each token. */
const COOL_DOWN_MS = 2_000;
/** After a failed read. */
const PAUSE_MS = 1_000;

export interface IssuerAddress {
  /** `iss` of the tokens. */
  issuer: string;
  /** Without it: discovery. */
  jwksUri?: string;
  /** PEM file of the authorities of the issuer's certificate. */
  caFile?: string;
  /** File with a bearer token for reading the keys; read again at each use. */
  tokenFile?: string;
}

/** The issuer did not answer, or its answer has no keys. */
export class IssuerUnreachable extends Error {
  constructor(issuer: string, cause: unknown) {
    super(`The keys of the issuer ${issuer} could not be read.`, { cause });
    this.name = 'IssuerUnreachable';
  }
}

export class IssuerKeys {
  readonly #address: IssuerAddress;
  #keys: Promise<JWTVerifyGetKey> | undefined;
  #agent: Agent | undefined;
  #pausedUntilMs = 0;
  #lastFailure: unknown;

  constructor(address: IssuerAddress) {
    this.#address = address;
  }

  /** For jwtVerify. Rejects with IssuerUnreachable, or with jose's error for an unknown key. */
  readonly getKey: JWTVerifyGetKey = async (header, token) => {
    this.#keys ??= this.#open();
    const keys = await this.#keys.catch((error: unknown) => {
      this.#keys = undefined;
      throw error;
    });
    return await keys(header, token);
  };

  async close(): Promise<void> {
    await this.#agent?.close();
  }

  async #open(): Promise<JWTVerifyGetKey> {
    const url = this.#address.jwksUri ?? (await this.#discover());
    return createRemoteJWKSet(new URL(url), {
      timeoutDuration: TIMEOUT_MS,
      cooldownDuration: COOL_DOWN_MS,
      cacheMaxAge: KEPT_MS,
      [customFetch]: async (target) => new Response(await this.#read(target), { status: 200 }),
    });
  }

  async #discover(): Promise<string> {
    const { issuer } = this.#address;
    const text = await this.#read(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
    try {
      const document = JSON.parse(text) as { issuer?: unknown; jwks_uri?: unknown };
      if (document.issuer !== issuer) throw new Error('The discovery document names another issuer.');
      return new URL(String(document.jwks_uri)).href;
    } catch (cause) {
      throw this.#failed(cause);
    }
  }

  /** The JSON text of a 200. */
  async #read(url: string): Promise<string> {
    if (performance.now() < this.#pausedUntilMs) {
      throw new IssuerUnreachable(this.#address.issuer, this.#lastFailure);
    }
    try {
      const response = await fetch(url, {
        headers: await this.#headers(),
        redirect: 'error',
        dispatcher: await this.#dispatcher(),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      const text = await response.text();
      if (response.status !== 200) throw new Error(`The issuer answered ${response.status}.`);
      JSON.parse(text);
      return text;
    } catch (cause) {
      throw this.#failed(cause);
    }
  }

  #failed(cause: unknown): IssuerUnreachable {
    this.#pausedUntilMs = performance.now() + PAUSE_MS;
    this.#lastFailure = cause;
    return new IssuerUnreachable(this.#address.issuer, cause);
  }

  async #headers(): Promise<Record<string, string>> {
    const { tokenFile } = this.#address;
    const accept = 'application/json, application/jwk-set+json';
    if (!tokenFile) return { accept };
    return { accept, authorization: `Bearer ${(await readFile(tokenFile, 'utf8')).trim()}` };
  }

  async #dispatcher(): Promise<Agent> {
    const { caFile } = this.#address;
    this.#agent ??= new Agent({ connect: caFile ? { ca: await readFile(caFile, 'utf8') } : {} });
    return this.#agent;
  }
}
