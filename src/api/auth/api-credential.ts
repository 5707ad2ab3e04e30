// Authenticates API credentials, `bkc_<id>_<secret>`. A credential that was read is cached for less than 5 seconds: a
// revoked one ends everywhere within that time (docs/contract/tenancy.md).

import type { DirectoryAnswer, ReadDirectory } from '../../service/calls/directory.ts';
import { digestOfSecret, matchesDigest, parseCredential } from '../../service/tenancy/credential-token.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import {
  findKnownCredential,
  type KnownCredential,
  updateLastUsed,
} from '../../store/tenancy/credentials.ts';
import type { Log } from '../../telemetry/log.ts';
import { ExpiringMap } from './expiring-map.ts';
import { type Authenticated, authenticationRequired } from './principal.ts';
import { SharedReads } from './shared-reads.ts';

const KEPT_MS = 4_000;
const MOST_KEPT = 10_000;
const NOTE_EVERY_MS = 1_000;
const LAST_USED_MS = 60_000;
const LATELY_MS = 60_000;
/** Stands in for the digest of an unknown credential, so that its refusal takes as long. */
const NO_DIGEST = Buffer.alloc(32);

interface Known extends Pick<DirectoryAnswer<KnownCredential>, 'newestIsAway'> {
  credential: KnownCredential;
  readAtMs: number;
}

/** The shares of the database in which credentials are read. */
export interface CredentialShares {
  /** For credentials that authenticated here in the last minute: strangers, however many, do not hold them up. */
  known: ReadDirectory;
  strangers: ReadDirectory;
}

export class CredentialAuthenticator {
  readonly #shares: CredentialShares;
  readonly #db: Queryable;
  readonly #log: Log;
  readonly #known = new SharedReads<Known>({ most: MOST_KEPT, keptMs: KEPT_MS });
  /** Credentials that authenticated here. */
  readonly #lately = new ExpiringMap<true>(MOST_KEPT);
  /** Credentials in use whose `last used` this process has not written in the last minute. */
  readonly #toNote = new Map<string, string>();
  readonly #noted = new ExpiringMap<true>(MOST_KEPT);
  #timer: NodeJS.Timeout | undefined;

  /** `db`: where credentials are written. */
  constructor(shares: CredentialShares, db: Queryable, log: Log) {
    this.#shares = shares;
    this.#db = db;
    this.#log = log;
  }

  start(): void {
    this.#timer = setInterval(() => void this.noteLastUsed(), NOTE_EVERY_MS).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.noteLastUsed();
  }

  /**
   * Throws `authentication_required`; rejects with the database's error when it is away, and with that of the default one for a
   * secret that a copy does not have.
   */
  async authenticate(token: string): Promise<Authenticated> {
    const presented = parseCredential(token);
    if (!presented) throw authenticationRequired();
    const digest = digestOfSecret(presented.secret);
    const credential =
      (await this.#findValid(presented.credentialId, digest)) ??
      (await this.#findAgain(presented.credentialId, digest));
    if (!credential) throw authenticationRequired();
    this.#use(credential);
    return authenticatedAs(credential);
  }

  /** Call it after a change of the credential on this replica: the next call reads it again. */
  forget(credentialId: string): void {
    this.#known.forget(credentialId);
  }

  /** Writes when credentials were last used, outside of any request. Never rejects. */
  async noteLastUsed(): Promise<void> {
    if (this.#toNote.size === 0) return;
    const used = [...this.#toNote].map(([credentialId, projectId]) => ({ projectId, credentialId }));
    this.#toNote.clear();
    for (const { credentialId } of used) this.#noted.set(credentialId, true, LAST_USED_MS);
    try {
      await updateLastUsed(this.#db, used);
    } catch (error) {
      this.#log.warn({ err: error }, 'The times at which credentials were last used could not be written.');
    }
  }

  async #findValid(credentialId: string, digest: Buffer): Promise<KnownCredential | undefined> {
    const known = await this.#known.get(credentialId, () => {
      const { known, strangers } = this.#shares;
      return read(this.#lately.get(credentialId) ? known : strangers, credentialId);
    });
    return validOf(known, digest);
  }

  /**
   * The cached credential may be older than a rotation on another replica, and a new secret works everywhere at once. Who
   * sends a wrong one is a stranger, whose read no call with the right one waits for.
   */
  async #findAgain(credentialId: string, digest: Buffer): Promise<KnownCredential | undefined> {
    if (!this.#known.has(credentialId)) return undefined; // not cached: there is no such credential
    const known = await read(this.#shares.strangers, credentialId);
    const credential = validOf(known, digest);
    if (credential) this.forget(credentialId);
    else if (known?.newestIsAway) throw known.newestIsAway;
    return credential;
  }

  #use({ credentialId, projectId }: KnownCredential): void {
    this.#lately.set(credentialId, true, LATELY_MS);
    if (!this.#noted.get(credentialId)) this.#toNote.set(credentialId, projectId);
  }
}

async function read(readDirectory: ReadDirectory, credentialId: string): Promise<Known | undefined> {
  const readAtMs = performance.now();
  const { found: credential, newestIsAway } = await readDirectory((db) =>
    findKnownCredential(db, credentialId),
  );
  return credential && { credential, readAtMs, newestIsAway };
}

function validOf(known: Known | undefined, digest: Buffer): KnownCredential | undefined {
  const ageMs = performance.now() - (known?.readAtMs ?? 0);
  return isValid(known?.credential, digest, ageMs) ? known?.credential : undefined;
}

function isValid(
  credential: KnownCredential | undefined,
  digest: Buffer,
  ageMs: number,
): credential is KnownCredential {
  const isCurrent = matchesDigest(digest, credential?.digest ?? NO_DIGEST);
  const isPrevious = matchesDigest(digest, credential?.previousDigest ?? NO_DIGEST);
  if (!credential || credential.revoked) return false;
  if (credential.expiresInMs !== null && credential.expiresInMs <= ageMs) return false;
  const overlaps = credential.previousEndsInMs !== null && credential.previousEndsInMs > ageMs;
  return isCurrent || (isPrevious && overlaps);
}

function authenticatedAs(credential: KnownCredential): Authenticated {
  const { credentialId, name, preset, scopes, projectId, organizationId } = credential;
  const role = preset === 'manage' ? 'member' : 'viewer';
  return {
    principal: { kind: 'credential', credentialId, name, preset, role, scopes, projectId, organizationId },
    organization: {
      organizationId,
      name: credential.organizationName,
      plan: credential.plan,
      serviceState: credential.serviceState,
    },
  };
}
