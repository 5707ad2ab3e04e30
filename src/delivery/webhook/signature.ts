// Signs webhook requests as Standard Webhooks 1.0 says, and creates signing secrets.
// It neither stores nor chooses secrets: the caller passes those that are valid now.
import { createHmac, createSecretKey, randomBytes } from 'node:crypto';

const SECRET_PREFIX = 'sigcb_v1_';
const KEY_BYTES = 32;
/** 43 base64url characters carry 258 bits: the last one must leave its two spare bits at zero. */
const SECRET_PATTERN = /^sigcb_v1_[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/;

export interface SignatureInput {
  /** The same on every attempt of one message. */
  webhookId: string;
  /** Seconds since 1970, of this attempt: receivers refuse a request that is older than a few minutes. */
  timestampSeconds: number;
  body: string;
  /** Valid secrets, newest first: one, or two in a rotation's overlap. */
  secrets: readonly string[];
}

/** The three headers of Standard Webhooks 1.0. A type alias, so that it is assignable to header records. */
export type SignatureHeaders = {
  'webhook-id': string;
  'webhook-timestamp': string;
  'webhook-signature': string;
};

/** A new secret: `sigcb_v1_` and 256 random bits as 43 base64url characters (docs/contract/callbacks.md). */
export function newSigningSecret(): string {
  return SECRET_PREFIX + randomBytes(KEY_BYTES).toString('base64url');
}

/**
 * The 32 bytes of the HMAC key that a secret encodes (docs/contract/callbacks.md).
 * Throws when the text is not a signing secret; the message does not contain the text.
 */
export function signingKey(secret: string): Buffer {
  if (!SECRET_PATTERN.test(secret)) throw new Error('This is not a signing secret of the form sigcb_v1_….');
  return Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64url');
}

/** Headers of one attempt. Two secrets give two signatures, separated by a space, newest first. */
export function signatureHeaders(input: SignatureInput): SignatureHeaders {
  if (input.secrets.length === 0) throw new Error('A webhook needs at least one signing secret.');
  const timestamp = String(Math.floor(input.timestampSeconds));
  const content = `${input.webhookId}.${timestamp}.${input.body}`;
  const signatures = input.secrets.map((secret) => {
    // A key object: with the bytes themselves Node takes five times as long.
    const key = createSecretKey(signingKey(secret));
    return `v1,${createHmac('sha256', key).update(content, 'utf8').digest('base64')}`;
  });
  return {
    'webhook-id': input.webhookId,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  };
}
