// Who calls: the owner of an API credential, or a session of a configured issuer (docs/contract/tenancy.md).
// Tokens are read in api-credential.ts and session-token.ts; admission.ts decides what a principal may do.
import { PRESET_ROLES, type Preset } from '../../contract/operations/operation.ts';
import type { CredentialPreset, Role } from '../../domain/access.ts';
import type { Actor } from '../../domain/incident.ts';
import { ProblemError } from '../../domain/problem.ts';
import type { Organization } from '../../store/tenancy/organizations.ts';

export interface CredentialPrincipal {
  kind: 'credential';
  credentialId: string;
  name: string;
  preset: CredentialPreset;
  scopes: readonly string[];
  organizationId: string;
  projectId: string;
}

/** The role `operator` is that of the operator in a cluster: it acts in every project of its organization. */
export interface SessionPrincipal {
  kind: 'session';
  subject: string;
  display: string;
  role: Role;
  organizationId: string;
}

export type Principal = CredentialPrincipal | SessionPrincipal;

export function roleOf(principal: Principal): Role {
  if (principal.kind === 'session') return principal.role;
  return principal.preset === 'manage' ? 'member' : 'viewer';
}

export function mayCall(principal: Principal, preset: Preset): boolean {
  return PRESET_ROLES[preset].includes(roleOf(principal));
}

/** The principal as change records and timelines show it. */
export function actorOf(principal: Principal): Actor {
  if (principal.kind === 'credential') {
    return { kind: 'api_credential', id: principal.credentialId, display: principal.name };
  }
  const kind = principal.role === 'operator' ? 'operator' : 'session';
  return { kind, id: principal.subject, display: principal.display };
}

export interface Authenticated {
  principal: Principal;
  organization: Organization;
}

/**
 * Reads the `Authorization` header. Throws `authentication_required`, or `temporarily_unavailable` while an issuer or the
 * database cannot be reached.
 */
export type Authenticate = (authorization: string | undefined) => Promise<Authenticated>;

export interface Authenticators {
  /** For tokens that begin with `bkc_`. */
  credential: (token: string) => Promise<Authenticated>;
  /** For every other token. */
  session: (token: string) => Promise<Authenticated>;
}

// Longer than a credential and than the tokens of usual issuers. Node limits all headers together to 16 KiB.
const MAX_TOKEN = 8_192;

export function createAuthenticate(authenticators: Authenticators): Authenticate {
  return async (authorization) => {
    const token = /^Bearer +([A-Za-z0-9._~+/=-]+)$/i.exec(authorization?.trim() ?? '')?.[1];
    if (!token || token.length > MAX_TOKEN) throw authenticationRequired();
    return await (token.startsWith('bkc_')
      ? authenticators.credential(token)
      : authenticators.session(token));
  };
}

/** One sentence for every reason: a stranger must not learn which part was right. */
export function authenticationRequired(cause?: unknown): ProblemError {
  return new ProblemError('authentication_required', {
    detail:
      'The request has no valid token: send an API credential or a session token in Authorization: Bearer <token>.',
    cause,
  });
}
