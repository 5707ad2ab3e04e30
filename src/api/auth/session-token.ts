// Authenticates session tokens: JWTs of configured issuers (docs/contract/tenancy.md). Only asymmetric algorithms are
// allowed; the library checks issuer, audience, age, expiry and begin. A verified token is trusted for a minute, and
// no longer than its keys. Nobody without a role costs a review, or a place among the tokens that are kept.
import { createHash } from 'node:crypto';
import { decodeJwt, errors, type JWTPayload, jwtVerify } from 'jose';
import { ProblemError } from '../../domain/problem.ts';
import type { ReadDirectory } from '../../service/calls/directory.ts';
import { findOrganizationByName, type Organization } from '../../store/tenancy/organizations.ts';
import { IssuerUnreachable } from './issuer-connection.ts';
import { type IssuerAddress, IssuerKeys, type KeySet } from './issuer-keys.ts';
import { IssuerName } from './issuer-name.ts';
import { KeptTokens } from './kept-tokens.ts';
import { type Authenticated, authenticationRequired } from './principal.ts';
import { type ClaimRules, readSession, type Session, withoutRole } from './session-claims.ts';
import { SharedReads } from './shared-reads.ts';
import { TokenReviews } from './token-reviews.ts';

const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];
/** Between the local clock and that of the issuer. */
const CLOCK_TOLERANCE_SECONDS = 5;
const TRUSTED_MS = 60_000;
/** Who repeats a token that its review refused is not asked about each time. */
const REFUSED_MS = 5_000;
const MOST_ORGANIZATIONS = 10_000;
const ORGANIZATION_KEPT_MS = 4_000;

/** A trusted issuer, as in BEATKEEPER_ISSUERS. */
export interface TrustedIssuer extends IssuerAddress, ClaimRules {
  audience: string;
  /** In seconds, since `iat`. */
  maxTokenAge: number;
  /** Where a Kubernetes API server reviews the issuer's tokens. Without it the signature decides alone. */
  tokenReviewUri?: string;
}

/** `issuer`: the `iss` that its tokens have now. */
type NamedIssuer = TrustedIssuer & { issuer: string };

interface Verifier {
  trusted: TrustedIssuer;
  name: IssuerName;
  keys: IssuerKeys;
  reviews: TokenReviews | undefined;
}

/** What is known of a token that was verified with these keys. */
interface Verified {
  session: Session | 'refused';
  keys: IssuerKeys;
  set: KeySet;
}

interface Proof {
  verifier: Verifier;
  claims: JWTPayload;
  set: KeySet;
}

export class SessionAuthenticator {
  readonly #readDirectory: ReadDirectory;
  readonly #now: () => number;
  readonly #verifiers: readonly Verifier[];
  readonly #verified: KeptTokens<Verified>;
  /** Each token is verified, and reviewed, once at a time. Strangers' tokens are in no other map. */
  readonly #verifying = new Map<string, Promise<Session>>();
  readonly #organizations: SharedReads<Organization>;

  /** `now`: a monotonic clock in ms; tests set it. */
  constructor(
    readDirectory: ReadDirectory,
    issuers: readonly TrustedIssuer[],
    now = () => performance.now(),
  ) {
    this.#readDirectory = readDirectory;
    this.#now = now;
    this.#verifiers = issuers.map((trusted) => ({
      trusted,
      name: new IssuerName(trusted, now),
      keys: new IssuerKeys(trusted, now),
      reviews: reviewsOf(trusted),
    }));
    this.#verified = new KeptTokens(TRUSTED_MS, now);
    this.#organizations = new SharedReads({ most: MOST_ORGANIZATIONS, keptMs: ORGANIZATION_KEPT_MS, now });
  }

  async stop(): Promise<void> {
    await Promise.all(this.#verifiers.flatMap(({ keys, reviews }) => [keys.close(), reviews?.close()]));
  }

  /** Throws `authentication_required`, `temporarily_unavailable`, or `permission_denied` for a principal without a role. */
  async authenticate(token: string): Promise<Authenticated> {
    const { organizationName, ...session } = await this.#session(token);
    const organization = await this.#organization(organizationName);
    const { organizationId } = organization;
    return { principal: { kind: 'session', ...session, organizationId }, organization };
  }

  async #session(token: string): Promise<Session> {
    const unverified = decode(token);
    const name = createHash('sha256').update(token).digest('base64');
    const kept = this.#verified.get(ownerOf(unverified), name);
    if (kept && kept.keys.trustedForMs(kept.set) > 0) return admit(kept);
    const running = this.#verifying.get(name);
    if (running) return await running;
    const verifying = this.#verify(name, token, unverified).finally(() => this.#verifying.delete(name));
    this.#verifying.set(name, verifying);
    return await verifying;
  }

  async #verify(name: string, token: string, unverified: JWTPayload): Promise<Session> {
    const startMs = this.#now();
    const { verifier, claims, set } = await asProblem(this.#prove(token, unverified));
    const { trusted, keys, reviews } = verifier;
    const session = readSession(claims, trusted);
    await this.#organization(session.organizationName);
    const isGood = !reviews || (await asProblem(reviews.isAuthenticated(token, session.subject)));
    const verified: Verified = { session: isGood ? session : 'refused', keys, set };
    const trustedForMs = Math.min(
      startMs + (isGood ? TRUSTED_MS : REFUSED_MS) - this.#now(),
      keys.trustedForMs(set),
      endsInMs(claims, trusted),
    );
    if (trustedForMs > 0)
      this.#verified.set({ subject: ownerOf(claims), token: name }, verified, trustedForMs);
    return admit(verified);
  }

  /**
   * The claims are not verified yet: they only choose the keys to verify with. Several issuers may have one name, as those
   * of two clusters have: the one whose keys fit has signed the token. Rejects as `verify`.
   */
  async #prove(token: string, { iss, aud }: JWTPayload): Promise<Proof> {
    const audiences = [aud].flat();
    let fault: unknown;
    for (const verifier of this.#verifiers) {
      const { trusted, keys } = verifier;
      if (!audiences.includes(trusted.audience)) continue;
      try {
        if (!(await verifier.name.is(iss))) continue;
        const proof = await verify(token, { trusted: { ...trusted, issuer: iss ?? '' }, keys });
        return { verifier, ...proof };
      } catch (error) {
        if (!isPerhapsOfAnother(error)) throw error;
        if (!(fault instanceof IssuerUnreachable)) fault = error;
      }
    }
    throw fault ?? new errors.JWTInvalid('No issuer has the name and the audience of this token.');
  }

  /** Throws `permission_denied`; rejects with the database's error when it is away. */
  async #organization(name: string): Promise<Organization> {
    const found = await this.#organizations.get(name, () => this.#findOrganization(name));
    if (!found) throw withoutRole();
    return found;
  }

  async #findOrganization(name: string): Promise<Organization | undefined> {
    return (await this.#readDirectory((db) => findOrganizationByName(db, name))).found;
  }
}

function reviewsOf({ tokenReviewUri, ...trusted }: TrustedIssuer): TokenReviews | undefined {
  return tokenReviewUri === undefined ? undefined : new TokenReviews({ ...trusted, tokenReviewUri });
}

function decode(token: string): JWTPayload {
  try {
    return decodeJwt(token);
  } catch (cause) {
    throw authenticationRequired(cause);
  }
}

/** Also of claims that are not verified: what is kept under it is found by the whole token alone. */
function ownerOf({ iss, sub }: JWTPayload): string {
  return JSON.stringify([iss, sub]);
}

function admit({ session }: Verified): Session {
  if (session === 'refused') throw authenticationRequired();
  return session;
}

/** The keys of an issuer do not fit, or nothing is known of them: the token may be of another one of that name. */
function isPerhapsOfAnother(error: unknown): boolean {
  return (
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWSSignatureVerificationFailed ||
    error instanceof IssuerUnreachable
  );
}

/** Turns errors of the issuer and of the library into problems. */
async function asProblem<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (cause) {
    throw cause instanceof IssuerUnreachable ? issuerUnreachable(cause) : authenticationRequired(cause);
  }
}

/** An unknown key may be newer than the keys that are kept. Rejects with IssuerUnreachable or an error of the library. */
async function verify(
  token: string,
  { trusted, keys }: { trusted: NamedIssuer; keys: IssuerKeys },
): Promise<{ claims: JWTPayload; set: KeySet }> {
  const kept = await keys.current();
  try {
    return { claims: await verifyWith(kept, token, trusted), set: kept };
  } catch (error) {
    if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
    const set = await keys.newest();
    if (set === kept) throw error;
    return { claims: await verifyWith(set, token, trusted), set };
  }
}

async function verifyWith(set: KeySet, token: string, trusted: NamedIssuer): Promise<JWTPayload> {
  const { payload } = await jwtVerify(token, set.getKey, {
    issuer: trusted.issuer,
    audience: trusted.audience,
    algorithms: ALGORITHMS,
    clockTolerance: CLOCK_TOLERANCE_SECONDS,
    maxTokenAge: trusted.maxTokenAge,
    requiredClaims: ['exp', 'iat', 'sub'],
  });
  return payload;
}

/** When it expires or becomes too old. */
function endsInMs({ exp = 0, iat = 0 }: JWTPayload, { maxTokenAge }: TrustedIssuer): number {
  return Math.min(exp, iat + maxTokenAge) * 1_000 - Date.now();
}

function issuerUnreachable(cause: IssuerUnreachable): ProblemError {
  return new ProblemError('temporarily_unavailable', {
    detail:
      'The issuer of this session token does not answer, so the token cannot be checked: wait for Retry-After, then try again.',
    retryAfterSeconds: 2,
    cause,
  });
}
