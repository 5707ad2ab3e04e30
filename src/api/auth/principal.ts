// Who calls: the owner of an API credential, or a session of a configured issuer (docs/contract/tenancy.md).
// How a token becomes one is in plugins/authentication.ts; what it may do is in admission.ts.
import { PRESET_ROLES, type Preset } from '../../contract/operations/operation.ts';
import type { CredentialPreset, Role } from '../../domain/access.ts';
import type { Actor } from '../../domain/incident.ts';

export interface CredentialPrincipal {
  kind: 'credential';
  credentialId: string;
  name: string;
  preset: CredentialPreset;
  scopes: readonly string[];
  organizationId: string;
  projectId: string;
}

/** With role `operator` it is the cluster's operator: it acts in every project of its organization. */
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

/** How the principal stands in change records and timelines. */
export function actorOf(principal: Principal): Actor {
  if (principal.kind === 'credential') {
    return { kind: 'api_credential', id: principal.credentialId, display: principal.name };
  }
  const kind = principal.role === 'operator' ? 'operator' : 'session';
  return { kind, id: principal.subject, display: principal.display };
}
