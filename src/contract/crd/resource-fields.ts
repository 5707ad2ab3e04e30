// Fields of every custom resource: names of objects, conditions, CEL rules on zod schemas (docs/contract/kubernetes.md).
import { z } from 'zod';
import { UUID_PATTERN } from '../../domain/id.ts';
import { alias, callbackUrl, integer, MAX_SAFE, timestamp } from '../fields/field.ts';
import { type CelRule, SENTENCE, VALIDATIONS } from './structural.ts';

/** Adds CEL rules to a schema of a custom resource. */
export function withRules<Schema extends z.ZodType>(schema: Schema, ...rules: CelRule[]): Schema {
  return schema.meta({ ...schema.meta(), [VALIDATIONS]: rules });
}

/** The sentence that a user reads when the value does not match the pattern of the field. */
export function withSentence<Schema extends z.ZodType>(schema: Schema, sentence: string): Schema {
  return schema.meta({ ...schema.meta(), [SENTENCE]: sentence });
}

/** The value cannot change. A rule of the parent forbids to add or remove it. */
export const IMMUTABLE = 'self == oldSelf';

/** Text without control characters and without blanks at its ends: the API would trim them, and that would be drift. */
export function trimmedText(maximum: number, noun: string) {
  const control = '\\x00-\\x1f\\x7f-\\x9f';
  const pattern = new RegExp(`^[^\\s${control}]([^${control}]*[^\\s${control}])?$`);
  const sentence = `Remove control characters from the ${noun}, and blanks before and after it.`;
  return withSentence(z.string().min(1).max(maximum).regex(pattern), sentence);
}

export const objectName = withSentence(
  z
    .string()
    .min(1)
    .max(253)
    .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/),
  'Must be the name of a Kubernetes object: lower-case letters, digits, "-" and ".".',
);

export const localRef = z.strictObject({ name: objectName });

export const resourceAlias = withSentence(
  alias,
  'Must start with a letter or digit, then letters, digits, "_" or "-".',
);

export const resourceUrl = withSentence(
  callbackUrl,
  'Must be an address such as https://example.com/alerts, without user, password, fragment or blanks.',
);

/** metav1.Condition. */
const condition = z.object({
  type: z.string().min(1).max(316),
  status: z.enum(['True', 'False', 'Unknown']),
  observedGeneration: integer(0, MAX_SAFE).optional(),
  lastTransitionTime: timestamp,
  reason: z.string().min(1).max(1024),
  message: z.string().max(32_768),
});

/**
 * The conditions of an object that the operator has not seen: a default of the schema, so that `kubectl wait` and other
 * tools that watch conditions have no moment in which they take a new object for a ready one.
 */
export function pendingConditions(types: readonly string[]) {
  return types.map((type) => ({
    type,
    status: 'Unknown' as const,
    reason: 'Pending',
    message: 'The operator has not reconciled this object yet.',
    lastTransitionTime: '1970-01-01T00:00:00Z',
  }));
}

/** Fields of every status; `pending` is the default of its conditions. */
export const observedStatus = (pending: ReturnType<typeof pendingConditions>) => ({
  observedGeneration: integer(0, MAX_SAFE).optional().describe('The generation that was last reconciled.'),
  conditions: z
    .array(condition)
    .meta({
      ...{ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['type'] },
      default: pending,
    })
    .optional(),
});

/** Fields of the status of an object that stands for something at the API. */
export const commonStatus = (pending: ReturnType<typeof pendingConditions>) => ({
  ...observedStatus(pending),
  projectId: z.string().regex(UUID_PATTERN).optional(),
  ownedFields: z
    .array(z.string())
    .meta({ 'x-kubernetes-list-type': 'set' })
    .optional()
    .describe('Fields that this object set: one that it sets no more goes back to its default.'),
  specHash: z
    .string()
    .optional()
    .describe('Of what was last applied: a restart with no change writes nothing.'),
});
