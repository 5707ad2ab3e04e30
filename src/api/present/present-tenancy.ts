// Projects and API credentials as the API shows them (docs/contract/tenancy.md).
import { type Credential as CredentialBody, credentialScope } from '../../contract/resources/credential.ts';
import type { Project as ProjectBody } from '../../contract/resources/project.ts';
import type { Credential } from '../../store/tenancy/credentials.ts';
import type { Project } from '../../store/tenancy/projects.ts';

export function presentProject(project: Project): ProjectBody {
  return {
    projectId: project.projectId,
    name: project.name,
    createdAt: project.createdAt.toISOString(),
    updatedAt: project.updatedAt.toISOString(),
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
    createdAt: credential.createdAt.toISOString(),
    lastUsedAt: credential.lastUsedAt?.toISOString(),
    expiresAt: credential.expiresAt?.toISOString(),
    revokedAt: credential.revokedAt?.toISOString(),
    version: credential.version,
  };
}
