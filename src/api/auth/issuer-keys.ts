// The public keys of one token issuer, from `jwksUri` or by discovery: kept for five minutes, and read again before for
// an unknown key (docs/contract/tenancy.md). Keys that cannot be read are IssuerUnreachable: the call is answered with
// 503, never admitted.
import { createLocalJWKSet, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import { type IssuerAccess, IssuerConnection } from './issuer-connection.ts';

const KEPT_MS = 5 * 60_000;
/** From this age on keys are read again beside the calls: none need wait, and an issuer may be away for a while. */
const REFRESHED_MS = KEPT_MS / 2;
/** Between two reads for unknown key ids: a stranger must not make the service call the issuer for each token. */
const COOL_DOWN_MS = 2_000;

export interface IssuerAddress extends IssuerAccess {
  /** Without it: discovery at `issuer`, which is stated then, at each read. */
  jwksUri?: string;
}

/** The keys of one moment. */
export interface KeySet {
  /** For jwtVerify. Rejects with jose's error for an unknown key. */
  readonly getKey: JWTVerifyGetKey;
}

interface Kept {
  set: KeySet;
  text: string;
  readAtMs: number;
}

export class IssuerKeys {
  readonly #address: IssuerAddress;
  readonly #connection: IssuerConnection;
  readonly #now: () => number;
  #kept: Kept | undefined;
  #reading: Promise<Kept> | undefined;

  constructor(address: IssuerAddress, now: () => number) {
    this.#address = address;
    this.#connection = new IssuerConnection(address);
    this.#now = now;
  }

  /** Rejects with IssuerUnreachable. */
  async current(): Promise<KeySet> {
    const kept = this.#kept;
    const ageMs = this.#ageMs();
    if (!kept || ageMs >= KEPT_MS) return (await this.#read()).set;
    if (ageMs >= REFRESHED_MS) this.#read().catch(() => undefined); // the kept ones still hold
    return kept.set;
  }

  /** For a key that the current set lacks. It may be the same set. Rejects with IssuerUnreachable. */
  async newest(): Promise<KeySet> {
    if (this.#kept && this.#ageMs() < COOL_DOWN_MS) return this.#kept.set;
    return (await this.#read()).set;
  }

  /** How long what was verified with this set may be trusted: not at all once a read has brought another set. */
  trustedForMs(set: KeySet): number {
    return this.#kept?.set === set ? KEPT_MS - this.#ageMs() : 0;
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }

  #ageMs(): number {
    return this.#now() - (this.#kept?.readAtMs ?? 0);
  }

  #read(): Promise<Kept> {
    this.#reading ??= this.#readOnce().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readOnce(): Promise<Kept> {
    const readAtMs = this.#now();
    const text = await this.#connection.request(this.#address.jwksUri ?? (await this.#discover()));
    const set = text === this.#kept?.text ? this.#kept.set : this.#parse(text);
    this.#kept = { set, text, readAtMs };
    return this.#kept;
  }

  #parse(text: string): KeySet {
    try {
      return { getKey: createLocalJWKSet(JSON.parse(text) as JSONWebKeySet) };
    } catch (cause) {
      throw this.#connection.unreachable(cause);
    }
  }

  async #discover(): Promise<string> {
    const { issuer = '' } = this.#address;
    const text = await this.#connection.request(
      `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`,
    );
    try {
      const document = JSON.parse(text) as { issuer?: unknown; jwks_uri?: unknown };
      if (document.issuer !== issuer) throw new Error('The discovery document names another issuer.');
      return new URL(String(document.jwks_uri)).href;
    } catch (cause) {
      throw this.#connection.unreachable(cause);
    }
  }
}
