// Who calls: the owner of an API credential, or a session of a configured issuer (docs/contract/tenancy.md).
// api-credential.ts and session-token.ts authenticate; admission.ts decides what a principal may do.
import type { CredentialPreset, Role } from '../../domain/access.ts';
import { ProblemError } from '../../domain/problem.ts';
import type { Organization } from '../../store/tenancy/organizations.ts';

export interface CredentialPrincipal {
  kind: 'credential';
  credentialId: string;
  name: string;
  preset: CredentialPreset;
  /** The role that the preset counts as. */
  role: Role;
  scopes: readonly string[];
  organizationId: string;
  projectId: string;
}

/** The role `operator` is that of the operator in a cluster: it acts in every project of its organization. */
export interface SessionPrincipal {
  kind: 'session';
  /** `iss` of the token: a subject is one person within its issuer alone. */
  issuer: string;
  subject: string;
  display: string;
  role: Role;
  organizationId: string;
}

export type Principal = CredentialPrincipal | SessionPrincipal;

export interface Authenticated {
  principal: Principal;
  organization: Organization;
}

/**
 * In whose share of the database it is found out what a principal may do: a session has one of its own, in whichever
 * project it calls, a credential that of its project. No other caller holds up the operator.
 */
export function shareOfPrincipal(principal: Principal): string {
  if (principal.role === 'operator') return 'operator';
  if (principal.kind === 'credential') return principal.projectId;
  return `${principal.organizationId} ${principal.subject}`;
}

/** One sentence for every reason: a stranger must not learn which part was right. */
export function authenticationRequired(cause?: unknown): ProblemError {
  return new ProblemError('authentication_required', {
    detail:
      'The request has no valid token: send an API credential or a session token in Authorization: Bearer <token>.',
    cause,
  });
}
