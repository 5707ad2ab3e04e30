// The Callback custom resource: its spec and status as zod, with CEL rules (docs/contract/kubernetes.md, "Callback").
import { z } from 'zod';
import { identifier, integer, MAX_SAFE, timestamp } from '../fields/field.ts';
import { callbackKind, callbackLifecycle } from '../resources/callback.ts';
import { deliveryState } from '../resources/delivery.ts';
import {
  commonStatus,
  objectName,
  pendingConditions,
  resourceAlias,
  resourceUrl,
  trimmedText,
  withRules,
  withSentence,
} from './resource-fields.ts';

const secretKey = withSentence(
  z
    .string()
    .min(1)
    .max(253)
    .regex(/^[-._a-zA-Z0-9]+$/),
  'Must be a key of a Secret: letters, digits, "-", "_" or ".".',
);

const every = withRules(
  z.string().min(2).max(5),
  {
    rule: "self.matches(r'^[1-9][0-9]{0,3}[hd]$')",
    message: 'Set a number of hours or days, such as 12h or 90d.',
  },
  {
    rule: "!self.matches(r'^[1-9][0-9]{0,3}[hd]$') || int(self.substring(0, size(self) - 1)) <= (self.endsWith('d') ? 365 : 8760)",
    message: 'Set at most 365d.',
  },
).describe('`<n>h` or `<n>d`, from 1h to 365d.');

const rotation = z.strictObject({
  every: every.optional(),
  overlapSeconds: integer(0, 900).optional().describe('How long the old secret signs beside the new one.'),
});

const KIND = "(has(self.kind) ? self.kind : 'webhook')";
const OLD_KIND = "(has(oldSelf.kind) ? oldSelf.kind : 'webhook')";

/** `spec` of a Callback. Fields with a default in the API have none here. */
export const callbackResourceSpec = withRules(
  z.strictObject({
    kind: callbackKind
      .optional()
      .describe('Kind of the endpoint. Default: webhook. The others need a messaging relay.'),
    alias: resourceAlias
      .optional()
      .describe(
        'Name of the endpoint in its project, which monitors may name it by. Default: metadata.name.',
      ),
    url: resourceUrl
      .optional()
      .describe('Of a webhook: the address that alerts are sent to. Where it is a secret: urlSecretRef.'),
    urlSecretRef: z.strictObject({ name: objectName, key: secretKey }).optional(),
    relay: z
      .strictObject({ actorId: trimmedText(128, 'actorId'), notifierId: trimmedText(128, 'notifierId') })
      .optional(),
    relayGroup: z.strictObject({ notifierId: trimmedText(128, 'notifierId') }).optional(),
    lifecycle: callbackLifecycle.optional(),
    organizationDefault: z
      .boolean()
      .optional()
      .describe('The endpoint for all monitors that name none. One in the organization: the oldest wins.'),
    signingSecretName: objectName
      .optional()
      .describe('The Secret that gets the signing secret. Default: `<name>-signing`.'),
    rotation: rotation.optional(),
    deletionPolicy: z
      .enum(['Delete', 'Orphan'])
      .default('Delete')
      .describe('What becomes of the endpoint when this object is deleted.'),
  }),
  {
    rule: `${KIND} != 'webhook' || has(self.url) || has(self.urlSecretRef)`,
    message: 'Set url, or urlSecretRef where the address is a secret: the kind webhook needs one.',
  },
  {
    rule: '!has(self.url) || !has(self.urlSecretRef)',
    message: 'Set either url or urlSecretRef, not both.',
  },
  {
    rule: `${KIND} == 'webhook' || (!has(self.url) && !has(self.urlSecretRef))`,
    message: 'Remove url and urlSecretRef: only the kind webhook has them.',
  },
  {
    rule: `(${KIND} == 'relay_subscriber') == has(self.relay)`,
    message: 'Set relay for the kind relay_subscriber, and for no other.',
  },
  {
    rule: `(${KIND} == 'relay_group') == has(self.relayGroup)`,
    message: 'Set relayGroup for the kind relay_group, and for no other.',
  },
  {
    rule: `${KIND} == 'webhook' || (!has(self.rotation) && !has(self.signingSecretName))`,
    message: 'Remove rotation and signingSecretName: only the kind webhook has a signing secret.',
  },
  {
    rule: `${KIND} == ${OLD_KIND}`,
    message: 'Leave kind as it is: to change it, make another Callback.',
  },
);
export type CallbackResourceSpec = z.output<typeof callbackResourceSpec>;

export const CALLBACK_PENDING = pendingConditions(['Synced', 'Ready']);

/** `status` of a Callback. It holds no secret. */
export const callbackResourceStatus = z.object({
  ...commonStatus(CALLBACK_PENDING),
  endpointId: identifier.optional(),
  alias: z.string().optional(),
  kind: callbackKind.optional(),
  lifecycle: callbackLifecycle.optional(),
  isOrganizationDefault: z.boolean().optional(),
  generation: integer(1, MAX_SAFE).optional().describe("The endpoint's generation."),
  secretVersion: integer(1, 65_535).optional(),
  signingSecretRef: z.object({ name: objectName }).optional(),
  lastRotation: z
    .object({ value: z.string(), at: timestamp.optional() })
    .optional()
    .describe('The last value of the annotation beatkeeper.dev/rotate that was acted on.'),
  lastDelivery: z
    .object({ state: deliveryState, at: timestamp, statusCode: integer(100, 599).optional() })
    .optional(),
});
export type CallbackResourceStatus = z.output<typeof callbackResourceStatus>;
