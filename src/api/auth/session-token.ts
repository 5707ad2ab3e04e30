// Authenticates session tokens: JWTs of configured issuers (docs/contract/tenancy.md). Only asymmetric algorithms are
// allowed; the library checks issuer, audience, expiry and begin. A verified token is cached until it expires.
import { createHash } from 'node:crypto';
import { decodeJwt, errors, type JWTPayload, jwtVerify } from 'jose';
import { ROLES, type Role } from '../../domain/access.ts';
import { ProblemError } from '../../domain/problem.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import { findOrganizationByName, type Organization } from '../../store/tenancy/organizations.ts';
import { isStorable } from '../http/request.ts';
import { ExpiringMap } from './expiring-map.ts';
import { type IssuerAddress, IssuerKeys, IssuerUnreachable } from './issuer-keys.ts';
import { type Authenticated, authenticationRequired } from './principal.ts';

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
const MOST_KEPT = 10_000;
const ORGANIZATION_KEPT_MS = 4_000;

/** A trusted issuer, as in BEATKEEPER_ISSUERS. */
export interface TrustedIssuer extends IssuerAddress {
  audience: string;
  /** Name of the organization in which its principals act. */
  organization: string;
  /** Claim that names the role; default: `sub`. */
  roleClaim?: string;
  /** Claim that names the organization, instead of `organization` where a token has it. */
  organizationClaim?: string;
  /** Value of the role claim -> role. A principal with another value may do nothing. */
  roles: Readonly<Record<string, Role>>;
}

interface Session {
  subject: string;
  display: string;
  role: Role | undefined;
  organizationName: string | undefined;
}

interface Verifier {
  trusted: TrustedIssuer;
  keys: IssuerKeys;
}

export class SessionAuthenticator {
  readonly #pool: Pool;
  readonly #verifiers: readonly Verifier[];
  readonly #sessions = new ExpiringMap<Session>(MOST_KEPT);
  readonly #organizations = new ExpiringMap<Organization>(MOST_KEPT);

  constructor(pool: Pool, issuers: readonly TrustedIssuer[]) {
    this.#pool = pool;
    this.#verifiers = issuers.map((trusted) => ({ trusted, keys: new IssuerKeys(trusted) }));
  }

  async stop(): Promise<void> {
    await Promise.all(this.#verifiers.map(({ keys }) => keys.close()));
  }

  /** Throws `authentication_required`, `temporarily_unavailable`, or `permission_denied` for a principal without a role. */
  async authenticate(token: string): Promise<Authenticated> {
    const session = await this.#session(token);
    const { subject, display, role, organizationName } = session;
    const organization =
      organizationName === undefined ? undefined : await this.#organization(organizationName);
    if (!role || !organization) {
      throw new ProblemError('permission_denied', {
        detail: 'The session has no role in an organization of this installation: ask an owner for a role.',
      });
    }
    const { organizationId } = organization;
    return { principal: { kind: 'session', subject, display, role, organizationId }, organization };
  }

  async #session(token: string): Promise<Session> {
    const name = createHash('sha256').update(token).digest('base64');
    const kept = this.#sessions.get(name);
    if (kept) return kept;
    const verifier = this.#verifierOf(token);
    const claims = await verify(token, verifier);
    const session = sessionOf(claims, verifier.trusted);
    this.#sessions.set(name, session, (claims.exp ?? 0) * 1_000 - Date.now());
    return session;
  }

  /** The claims are not verified yet: they only choose the keys to verify with. */
  #verifierOf(token: string): Verifier {
    const { iss, aud } = decode(token);
    const ofIssuer = this.#verifiers.filter(({ trusted }) => trusted.issuer === iss);
    const audiences = [aud].flat();
    const found = ofIssuer.find(({ trusted }) => audiences.includes(trusted.audience));
    if (!found) throw authenticationRequired();
    return found;
  }

  async #organization(name: string): Promise<Organization | undefined> {
    const kept = this.#organizations.get(name);
    if (kept) return kept;
    const organization = await findOrganizationByName(this.#pool, name);
    if (organization) this.#organizations.set(name, organization, ORGANIZATION_KEPT_MS);
    return organization;
  }
}

function decode(token: string): JWTPayload {
  try {
    return decodeJwt(token);
  } catch (cause) {
    throw authenticationRequired(cause);
  }
}

async function verify(token: string, { trusted, keys }: Verifier): Promise<JWTPayload> {
  try {
    const { payload } = await jwtVerify(token, keys.getKey, {
      issuer: trusted.issuer,
      audience: trusted.audience,
      algorithms: ALGORITHMS,
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      requiredClaims: ['exp', 'sub'],
    });
    return payload;
  } catch (cause) {
    if (!isUnreachable(cause)) throw authenticationRequired(cause);
    throw new ProblemError('temporarily_unavailable', {
      detail:
        'The issuer of this session token does not answer, so the token cannot be checked: wait for Retry-After, then try again.',
      retryAfterSeconds: 2,
      cause,
    });
  }
}

// An answer that is not a set of keys says nothing about the token.
function isUnreachable(error: unknown): boolean {
  return (
    error instanceof IssuerUnreachable ||
    error instanceof errors.JWKSTimeout ||
    error instanceof errors.JWKSInvalid
  );
}

function sessionOf(claims: JWTPayload, trusted: TrustedIssuer): Session {
  const subject = String(claims.sub);
  const organizationName = organizationOf(claims, trusted);
  // Both are stored, and an issuer may sign any text.
  if (!isStorable(subject) || !isStorable(organizationName ?? '')) throw authenticationRequired();
  return {
    subject,
    display: displayOf(claims, subject),
    role: roleOf(trusted.roleClaim ? claims[trusted.roleClaim] : subject, trusted.roles),
    organizationName,
  };
}

/**
 * The organization that the claim names, as text or as a list of one; that of the issuer where the token has no such
 * claim. Undefined where the claim names none or several: such a principal belongs to no organization.
 */
function organizationOf(
  claims: JWTPayload,
  { organizationClaim, organization }: TrustedIssuer,
): string | undefined {
  const claim = organizationClaim === undefined ? undefined : claims[organizationClaim];
  if (claim === undefined) return organization;
  const [name, ...others] = [claim].flat();
  return typeof name === 'string' && others.length === 0 ? name : undefined;
}

/** The highest role among those that the values of the claim map to. */
function roleOf(claim: unknown, roles: TrustedIssuer['roles']): Role | undefined {
  const values = [claim].flat().filter((value): value is string => typeof value === 'string');
  const found = values.filter((value) => Object.hasOwn(roles, value)).map((value) => roles[value]);
  return ROLES.findLast((role) => found.includes(role));
}

/** 1 to 160 characters without control characters, as change records show an actor. */
function displayOf(claims: JWTPayload, subject: string): string {
  const named = [claims.name, claims.email, subject].find((one) => typeof one === 'string' && one.trim());
  const text = String(named ?? 'unknown')
    .toWellFormed()
    .replaceAll(/\p{Cc}/gu, '');
  return [...text].slice(0, 160).join('') || 'unknown';
}
