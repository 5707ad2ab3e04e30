// Projects and API credentials as the API shows them (docs/contract/tenancy.md).
import { type Credential as CredentialBody, credentialScope } from '../../contract/resources/credential.ts';
import type { Project as ProjectBody } from '../../contract/resources/project.ts';
import { optionalTime, toTime } from '../../domain/timestamp.ts';
import type { Credential } from '../../store/tenancy/credentials.ts';
import type { Project } from '../../store/tenancy/projects.ts';

export function presentProject(project: Project): ProjectBody {
  return {
    projectId: project.projectId,
    name: project.name,
    formerNames: project.formerNames,
    createdAt: toTime(project.createdMs),
    updatedAt: toTime(project.updatedMs),
    version: project.version,
  };
}

/** Without scopes that this build does not know. */
export function presentCredential(credential: Credential): CredentialBody {
  return {
    credentialId: credential.credentialId,
    name: credential.name,
    preset: credential.preset,
    scopes: credential.scopes.filter(
      (scope) => credentialScope.safeParse(scope).success,
    ) as CredentialBody['scopes'],
    createdAt: toTime(credential.createdMs),
    lastUsedAt: optionalTime(credential.lastUsedMs),
    expiresAt: optionalTime(credential.expiresMs),
    revokedAt: optionalTime(credential.revokedMs),
    version: credential.version,
  };
}
