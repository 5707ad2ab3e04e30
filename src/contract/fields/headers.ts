// Request and response headers of the contract, and ETags (docs/contract/calls.md).
import { z } from 'zod';
import { correlationId, patterned } from './field.ts';

export const idempotencyKey = patterned(
  /^[A-Za-z0-9][A-Za-z0-9._~:/+-]{0,254}$/,
  255,
  'Must start with a letter or digit, then letters, digits, ".", "_", "~", ":", "/", "+" or "-", at most 255 characters.',
);

// RFC 9110 8.8.3: a strong entity tag. `*`, weak tags and lists do not match.
export const ifMatch = patterned(
  /^"[\x21\x23-\x7e]{1,128}"$/,
  130,
  'Must be one ETag from an earlier read, with its quotes, such as "configuration-7".',
);

/** The headers as callers write them: their names are the `path` of field errors. */
export const HEADER = {
  correlationId: 'X-Correlation-ID',
  requestId: 'X-Request-ID',
  idempotencyKey: 'Idempotency-Key',
  ifMatch: 'If-Match',
  project: 'Service-Project',
  rateLimitPolicy: 'RateLimit-Policy',
  rateLimit: 'RateLimit',
} as const;

export const correlationIdHeader = correlationId.describe('Echoed on the response.');
export const projectHeader = z
  .string()
  .min(1)
  .max(128)
  .describe('The project, by id or name. Needed by sessions; a credential has its own project.');

export type EtagKind = 'configuration' | 'callback-endpoint' | 'project' | 'credential';

/** `"configuration-7"`, quotes included. */
export function formatEtag(kind: EtagKind, version: number): string {
  return `"${kind}-${version}"`;
}

/** The version that a well-formed `If-Match` names. Undefined for a tag that the service cannot have made: it is stale. */
export function parseEtag(kind: EtagKind, value: string): number | undefined {
  const match = /^"(.+)-([1-9]\d{0,15})"$/.exec(value);
  if (match?.[1] !== kind) return undefined;
  const version = Number(match[2]);
  return Number.isSafeInteger(version) ? version : undefined;
}
