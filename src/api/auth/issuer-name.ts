// Which `iss` the tokens of a trusted issuer have: the configured one, or that of this process's own token
// (docs/contract/tenancy.md). Each cluster has another issuer, and a pod's token names it, so nobody need configure it.
import { readFile } from 'node:fs/promises';
import { decodeJwt } from 'jose';
import { type IssuerAccess, IssuerUnreachable, nameOf } from './issuer-connection.ts';

/** Between two reads of the own token for an unknown `iss`: strangers must not make the process read it for each call. */
const COOL_DOWN_MS = 1_000;
/** A cluster that changes its issuer signs with the same keys, and takes the tokens of the name before until they end. */
const FORMER_MS = 86_400_000;

export class IssuerName {
  readonly #access: IssuerAccess;
  readonly #now: () => number;
  #known: string | undefined;
  #former: { name: string; untilMs: number } | undefined;
  #reading: Promise<string> | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;

  /** `now`: a monotonic clock in ms. */
  constructor(access: IssuerAccess, now: () => number) {
    this.#access = access;
    this.#now = now;
    this.#known = access.issuer;
  }

  /** Rejects with IssuerUnreachable if the own token cannot be read: nothing is known of the issuer then. */
  async is(iss: unknown): Promise<boolean> {
    if (typeof iss !== 'string' || iss === '') return false;
    if (this.#known === iss) return true;
    if (this.#access.issuer !== undefined) return false;
    if (this.#former?.name === iss && this.#now() < this.#former.untilMs) return true;
    // The cluster may have got another issuer: the kubelet has renewed the token since.
    const isFresh = this.#known !== undefined && this.#now() - this.#readAtMs < COOL_DOWN_MS;
    if (isFresh && this.#reading === undefined) return false;
    return (await this.#read()) === iss;
  }

  #read(): Promise<string> {
    this.#reading ??= this.#readOnce().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readOnce(): Promise<string> {
    this.#readAtMs = this.#now();
    try {
      // Not verified: it is this process's own, and only says whose keys to verify others with.
      const { iss } = decodeJwt((await readFile(this.#access.tokenFile ?? '', 'utf8')).trim());
      if (!iss) throw new Error('The own token names no issuer.');
      if (this.#known !== undefined && this.#known !== iss)
        this.#former = { name: this.#known, untilMs: this.#now() + FORMER_MS };
      this.#known = iss;
      return iss;
    } catch (cause) {
      throw new IssuerUnreachable(nameOf(this.#access), cause);
    }
  }
}
