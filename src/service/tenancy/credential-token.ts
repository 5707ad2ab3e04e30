// The form of an API credential: `bkc_<id>_<secret>`, 32 hex digits and 256 random bits (docs/contract/tenancy.md).
// Only the SHA-256 digest of the secret is stored.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { newUuid } from '../../domain/id.ts';

const FORM = /^bkc_([0-9a-f]{32})_([A-Za-z0-9_-]{43})$/;

export interface CredentialToken {
  credentialId: string;
  /** 43 characters of base64url. */
  secret: string;
}

export function newCredentialId(): string {
  return newUuid().replaceAll('-', '');
}

export function newCredentialSecret(): string {
  return randomBytes(32).toString('base64url');
}

/** What a caller sends after `Bearer `. */
export function formatCredential({ credentialId, secret }: CredentialToken): string {
  return `bkc_${credentialId}_${secret}`;
}

export function parseCredential(token: string): CredentialToken | undefined {
  const [, credentialId, secret] = FORM.exec(token) ?? [];
  return credentialId && secret ? { credentialId, secret } : undefined;
}

/** What `insertCredential` stores. */
export function digestOfSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** In constant time. */
export function matchesDigest(digest: Buffer, known: Buffer): boolean {
  return digest.length === known.length && timingSafeEqual(digest, known);
}
