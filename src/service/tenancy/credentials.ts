// API credentials: create, rotate, revoke (docs/contract/tenancy.md). A secret is returned once and never stored.
import type { CredentialPreset } from '../../domain/access.ts';
import { invalidField, notFound, ProblemError } from '../../domain/problem.ts';
import type { Connection } from '../../store/postgres/pool.ts';
import {
  type Credential,
  insertCredential,
  lockCredential,
  updateCredentialDigest,
  updateCredentialRevoked,
} from '../../store/tenancy/credentials.ts';
import { requireVersion } from '../calls/write.ts';
import {
  digestOfSecret,
  formatCredential,
  newCredentialId,
  newCredentialSecret,
} from './credential-token.ts';

export interface IssuedCredential {
  credential: Credential;
  /** `bkc_<id>_<secret>`, shown once. */
  secret: string;
}

export interface CredentialRequest {
  projectId: string;
  name: string;
  preset: CredentialPreset;
  scopes: readonly string[];
  /** ms; undefined: it does not expire. */
  expiresMs?: number;
}

/** Throws `validation_failed` for an expiry in the past. */
export async function createCredential(
  tx: Connection,
  { expiresMs, ...request }: CredentialRequest,
  nowMs: number,
): Promise<IssuedCredential> {
  if (expiresMs !== undefined && expiresMs <= nowMs) {
    throw invalidField('expiresAt', 'Must be in the future.', 'in_the_past');
  }
  const token = { credentialId: newCredentialId(), secret: newCredentialSecret() };
  const credential = await insertCredential(tx, {
    ...request,
    credentialId: token.credentialId,
    scopes: [...new Set(request.scopes)],
    digest: digestOfSecret(token.secret),
    expiresMs,
  });
  return { credential, secret: formatCredential(token) };
}

export interface CredentialChange {
  projectId: string;
  credentialId: string;
  /** The version that the caller has read. */
  version: number;
}

/**
 * Issues a new secret; the old one ends at once, or after the overlap.
 * Throws `not_found`, `precondition_failed`, and `conflict` for a credential that is revoked or expired.
 */
export async function rotateCredential(
  tx: Connection,
  change: CredentialChange & { overlapSeconds: number },
  nowMs: number,
): Promise<IssuedCredential> {
  const { projectId, credentialId } = await lockUsable(tx, change, nowMs);
  const secret = newCredentialSecret();
  const credential = await updateCredentialDigest(tx, {
    projectId,
    credentialId,
    digest: digestOfSecret(secret),
    overlapSeconds: change.overlapSeconds,
  });
  return { credential, secret: formatCredential({ credentialId, secret }) };
}

/** Ends it for good. False: it was revoked before, and stays as it is. Throws `not_found`, `precondition_failed`. */
export async function revokeCredential(tx: Connection, change: CredentialChange): Promise<boolean> {
  const credential = await lockCredential(tx, change.projectId, change.credentialId);
  if (!credential) throw notFound();
  requireVersion(credential, change.version);
  if (credential.revokedMs !== undefined) return false;
  await updateCredentialRevoked(tx, change.projectId, change.credentialId);
  return true;
}

async function lockUsable(tx: Connection, change: CredentialChange, nowMs: number): Promise<Credential> {
  const credential = await lockCredential(tx, change.projectId, change.credentialId);
  if (!credential) throw notFound();
  requireVersion(credential, change.version);
  if (credential.revokedMs !== undefined) throw hasEnded('is revoked');
  // A new secret of an expired credential would not work either.
  if (credential.expiresMs !== undefined && credential.expiresMs <= nowMs) throw hasEnded('has expired');
  return credential;
}

function hasEnded(how: string): ProblemError {
  return new ProblemError('conflict', { detail: `The credential ${how}: create a new one.` });
}
