// The callback binding of a monitor: where its alerts go (docs/contract/callbacks.md).
import { z } from 'zod';
import { UNAVAILABLE_REASONS } from '../../domain/callback.ts';
import { alias, callbackUrl, identifier } from '../fields/field.ts';
import { callbackKind, signingSecret } from './callback.ts';

/** A binding as a caller states it. */
export const bindingInput = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('organization_default') }),
  z.strictObject({ kind: z.literal('named'), alias }),
  z.strictObject({ kind: z.literal('inline'), url: callbackUrl }),
  z.strictObject({ kind: z.literal('disabled') }),
]);
export type Binding = z.output<typeof bindingInput>;

export const bindingRecord = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('organization_default') }),
  z.object({ kind: z.literal('named'), alias }),
  z.object({ kind: z.literal('inline'), url: z.string() }),
  z.object({ kind: z.literal('disabled') }),
]);

export const setBindingBody = z
  .strictObject({
    binding: bindingInput,
    rotateSigningSecret: z
      .boolean()
      .optional()
      .describe('Issues a new signing secret for an inline binding, when the old one is lost.'),
  })
  .superRefine(({ binding, rotateSigningSecret }, context) => {
    if (!rotateSigningSecret || binding.kind === 'inline') return;
    context.addIssue({
      code: 'custom',
      path: ['rotateSigningSecret'],
      message: 'Leave this out: only an inline binding has a signing secret of its own.',
      params: { code: 'not_applicable' },
    });
  });

export const bindingResult = z
  .object({
    binding: bindingRecord,
    target: z
      .object({
        endpointId: identifier,
        alias: alias.optional(),
        kind: callbackKind,
        url: z.string().optional(),
      })
      .optional()
      .describe('The endpoint that alerts go to now.'),
    unavailableReason: z.enum(UNAVAILABLE_REASONS).optional(),
    signingSecret: signingSecret.optional(),
    replayed: z.boolean().optional(),
  })
  .describe('Exactly one of `target` and `unavailableReason`; neither for a disabled binding.');
