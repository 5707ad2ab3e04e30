// Seeds the database of a development run: two organizations, the project `default`, two credentials. A second run
// keeps them, and creates again what a user has revoked or removed.
import { newUuid } from '../domain/id.ts';
import {
  digestOfSecret,
  formatCredential,
  matchesDigest,
  newCredentialId,
  newCredentialSecret,
  parseCredential,
} from '../service/tenancy/credential-token.ts';
import { openPool, type Pool } from '../store/postgres/pool.ts';
import { findKnownCredential, insertCredential } from '../store/tenancy/credentials.ts';
import { insertOrganization } from '../store/tenancy/organizations.ts';
import { findProject, insertProject } from '../store/tenancy/projects.ts';
import type { State } from './state.ts';

/** The organization of the run, and another one for tests of the isolation between organizations. */
export const ORGANIZATION = 'default';
export const OTHER_ORGANIZATION = 'other';
const PROJECT = 'default';

export interface Seed {
  organizationId: string;
  projectId: string;
  /** Preset manage, scope usage:read. */
  credential: string;
  /** Preset read. */
  readCredential: string;
}

export async function seed(state: State, databaseUrl: string): Promise<Seed> {
  const pool = openPool({ databaseUrl, size: 1, applicationName: 'beatkeeper-dev' });
  try {
    const { organizationId, projectId } = await ensureProject(pool, ORGANIZATION);
    await ensureProject(pool, OTHER_ORGANIZATION);
    const { values } = state;
    const manage = { name: 'development', preset: 'manage', scopes: ['usage:read'] } as const;
    const read = { name: 'development, read only', preset: 'read', scopes: [] } as const;
    values.credential = await ensureCredential(pool, values.credential, { projectId, ...manage });
    values.readCredential = await ensureCredential(pool, values.readCredential, { projectId, ...read });
    const { credential, readCredential } = values;
    return { organizationId, projectId, credential, readCredential };
  } finally {
    await pool.end();
  }
}

async function ensureProject(
  pool: Pool,
  name: string,
): Promise<{ organizationId: string; projectId: string }> {
  const organization = { organizationId: newUuid(), name, plan: 'scale' } as const;
  const { organizationId } = await insertOrganization(pool, organization);
  const known = await findProject(pool, organizationId, PROJECT);
  const project =
    known ?? (await insertProject(pool, { projectId: newUuid(), organizationId, name: PROJECT }));
  return { organizationId, projectId: project.projectId };
}

interface Wanted {
  projectId: string;
  name: string;
  preset: 'manage' | 'read';
  scopes: readonly string[];
}

async function ensureCredential(pool: Pool, kept: string | undefined, wanted: Wanted): Promise<string> {
  if (kept !== undefined && (await isGood(pool, kept, wanted.projectId))) return kept;
  const [credentialId, secret] = [newCredentialId(), newCredentialSecret()];
  await insertCredential(pool, { ...wanted, credentialId, digest: digestOfSecret(secret) });
  return formatCredential({ credentialId, secret });
}

async function isGood(pool: Pool, token: string, projectId: string): Promise<boolean> {
  const parsed = parseCredential(token);
  const known = parsed && (await findKnownCredential(pool, parsed.credentialId));
  if (!known || known.projectId !== projectId || known.revoked || known.expiresInMs !== null) return false;
  return matchesDigest(digestOfSecret(parsed.secret), known.digest);
}
