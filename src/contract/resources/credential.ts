// API credentials of a project (docs/contract/tenancy.md). Only the answers to create and rotate have the secret.
import { z } from 'zod';
import { CREDENTIAL_PRESETS } from '../../domain/access.ts';
import { integer, MAX_SAFE, text, timestamp } from '../fields/field.ts';

const credentialPreset = z.enum(CREDENTIAL_PRESETS);
export const credentialScope = z.enum(['usage:read']).describe('For usage records in the export.');

export const credential = z.object({
  credentialId: z.string(),
  name: z.string(),
  preset: credentialPreset,
  scopes: z.array(credentialScope),
  createdAt: timestamp,
  lastUsedAt: timestamp.optional().describe('Coarse: written at most once a minute.'),
  expiresAt: timestamp.optional(),
  revokedAt: timestamp.optional(),
  version: integer(1, MAX_SAFE).describe('The ETag is `credential-<version>`.'),
});
export type Credential = z.output<typeof credential>;

export const createCredentialBody = z.strictObject({
  name: text({ minimum: 1, maximum: 64 }),
  preset: credentialPreset,
  scopes: z.array(credentialScope).max(8).default([]),
  expiresAt: timestamp
    .optional()
    .describe('Must be in the future. Without it the credential does not expire.'),
});

export const rotateCredentialBody = z.strictObject({
  overlapSeconds: integer(0, 86_400).default(0).describe('How long the old secret stays valid.'),
});

export const credentialIssueResult = z.object({
  credential,
  secret: z
    .string()
    .optional()
    .describe('`bkc_<id>_<43 characters>`. Shown once, here; a replay leaves it out.'),
  replayed: z.boolean(),
  overlapEndsAt: timestamp
    .optional()
    .describe('When the old secret stops, where a rotation keeps it for a while.'),
});
