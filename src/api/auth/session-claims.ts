// What the claims of a verified token say: who calls, in which role and organization (docs/contract/tenancy.md).
import type { JWTPayload } from 'jose';
import { ROLES, type Role } from '../../domain/access.ts';
import { ProblemError } from '../../domain/problem.ts';
import { isStorable } from '../http/request.ts';
import { authenticationRequired } from './principal.ts';

const MAX_DISPLAY = 160;

export interface ClaimRules {
  /** Name of the organization in which its principals act, where there is no `organizationClaim`. */
  organization?: string;
  /** Claim that names the organization. A token without it belongs to none. */
  organizationClaim?: string;
  /** Claim that names the role; default: `sub`. */
  roleClaim?: string;
  /** Value of the role claim -> role. A principal with another value may do nothing. */
  roles: Readonly<Record<string, Role>>;
}

export interface Session {
  issuer: string;
  subject: string;
  display: string;
  role: Role;
  organizationName: string;
}

/** Throws `authentication_required` for texts that cannot be stored, `permission_denied` for nobody. */
export function readSession(claims: JWTPayload, rules: ClaimRules): Session {
  const subject = String(claims.sub);
  const organizationName = organizationOf(claims, rules);
  // Both are stored, and an issuer may sign any text.
  if (!isStorable(subject) || !isStorable(organizationName ?? '')) throw authenticationRequired();
  const role = roleOf(rules.roleClaim ? claims[rules.roleClaim] : subject, rules.roles);
  if (!role || organizationName === undefined) throw withoutRole();
  const issuer = String(claims.iss);
  return { issuer, subject, display: displayOf(claims, subject), role, organizationName };
}

/** The token is good, and gives no right here. */
export function withoutRole(): ProblemError {
  return new ProblemError('permission_denied', {
    detail: 'The session has no role in an organization of this installation: ask an owner for a role.',
  });
}

/**
 * The organization that the claim names, as text or as a list of one; without a configured claim that of the issuer.
 * Undefined where the claim is missing, or names none or several: such a principal belongs to no organization.
 */
function organizationOf(
  claims: JWTPayload,
  { organizationClaim, organization }: ClaimRules,
): string | undefined {
  if (organizationClaim === undefined) return organization;
  const [name, ...others] = [claims[organizationClaim]].flat();
  return typeof name === 'string' && others.length === 0 ? name : undefined;
}

/** The highest role among those that the values of the claim map to. */
function roleOf(claim: unknown, roles: ClaimRules['roles']): Role | undefined {
  const values = [claim].flat().filter((value): value is string => typeof value === 'string');
  const found = values.filter((value) => Object.hasOwn(roles, value)).map((value) => roles[value]);
  return ROLES.findLast((role) => found.includes(role));
}

/**
 * 1 to 160 characters without control characters, as change records show an actor. A person may choose his name and, until
 * somebody verifies it, his address: what the issuer vouches for stands behind the name, always.
 */
function displayOf({ name, email, email_verified: isVerified }: JWTPayload, subject: string): string {
  const known = (isVerified === true && shown(email)) || shown(subject) || 'unknown';
  const behind = ` (${known})`;
  const room = MAX_DISPLAY - [...behind].length;
  const named = [...shown(name)].slice(0, Math.max(0, room)).join('');
  return named && named !== known ? `${named}${behind}` : known;
}

/** Without characters that hide text or turn it round. */
function shown(text: unknown): string {
  if (typeof text !== 'string') return '';
  const plain = text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Bidi_Control}]/gu, '')
    .trim();
  return [...plain].slice(0, MAX_DISPLAY).join('');
}
