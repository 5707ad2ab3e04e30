// What the claims of a verified token say: who calls, in which role and organization (docs/contract/tenancy.md).
import type { JWTPayload } from 'jose';
import { ROLES, type Role } from '../../domain/access.ts';
import { isStorable } from '../http/request.ts';
import { authenticationRequired } from './principal.ts';

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
  subject: string;
  display: string;
  role: Role | undefined;
  organizationName: string | undefined;
}

/** Throws `authentication_required` for texts that cannot be stored. */
export function readSession(claims: JWTPayload, rules: ClaimRules): Session {
  const subject = String(claims.sub);
  const organizationName = organizationOf(claims, rules);
  // Both are stored, and an issuer may sign any text.
  if (!isStorable(subject) || !isStorable(organizationName ?? '')) throw authenticationRequired();
  return {
    subject,
    display: displayOf(claims, subject),
    role: roleOf(rules.roleClaim ? claims[rules.roleClaim] : subject, rules.roles),
    organizationName,
  };
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

/** 1 to 160 characters without control characters, as change records show an actor. */
function displayOf(claims: JWTPayload, subject: string): string {
  const named = [claims.name, claims.email, subject].find((one) => typeof one === 'string' && one.trim());
  const text = String(named ?? 'unknown')
    .toWellFormed()
    .replaceAll(/\p{Cc}/gu, '');
  return [...text].slice(0, 160).join('') || 'unknown';
}
