// Callback endpoints and their signing secrets (docs/contract/callbacks.md).
import { z } from 'zod';
import { DESTINATION_FIELD, ENDPOINT_KINDS, ENDPOINT_LIFECYCLES } from '../../domain/callback.ts';
import { SIGNING_OVERLAP_SECONDS } from '../../domain/defaults.ts';
import { alias, callbackUrl, identifier, integer, MAX_SAFE, timestamp } from '../fields/field.ts';
import { hintsForUnknown } from '../fields/field-errors.ts';
import { deliveryState } from './delivery.ts';
import { endpointOrigin, endpointOriginInput } from './origin.ts';
import { relay, relayGroup, relayGroupInput, relayInput } from './relay.ts';

export const callbackKind = z
  .enum(ENDPOINT_KINDS)
  .describe(
    '`webhook` sends signed POSTs to a URL. `relay_subscriber` tells one person and `relay_group` everyone in the organization, on their phones: an installation without a messaging relay refuses them with `service.relay_not_configured`.',
  );
export const callbackLifecycle = z.enum(ENDPOINT_LIFECYCLES);

const secretVersion = integer(1, 65_535).describe('Counts the secrets of the endpoint, from 1.');
const DESTINATIONS = Object.values(DESTINATION_FIELD);

export const signingSecret = z
  .object({
    secret: z
      .string()
      .regex(/^sigcb_v1_[A-Za-z0-9_-]{43}$/)
      .describe('Shown once, here. The key is the 32 bytes that the last 43 characters encode (base64url).'),
    version: secretVersion,
    revealedAt: timestamp,
    onlyShownOnce: z.literal(true),
    previousVersion: secretVersion.optional().describe('The version that signs too, until `overlapEndsAt`.'),
    overlapEndsAt: timestamp.optional(),
  })
  .describe('A signing secret, at the one moment at which it can be read.');
export type SigningSecret = z.output<typeof signingSecret>;

export const callbackEndpoint = z.object({
  id: identifier,
  projectId: z.string(),
  alias,
  kind: callbackKind,
  url: z.string().max(512).optional(),
  relay: relay.optional(),
  relayGroup: relayGroup.optional(),
  origin: endpointOrigin.optional(),
  lifecycle: callbackLifecycle,
  isOrganizationDefault: z.boolean(),
  generation: integer(1, MAX_SAFE).describe('Its version: the ETag is `callback-endpoint-<generation>`.'),
  createdAt: timestamp,
  updatedAt: timestamp,
  disabledAt: timestamp.optional(),
  disabledReason: z
    .string()
    .optional()
    .describe('Why the service disabled it, such as `gone` after a 410 of the receiver.'),
  secret: z
    .object({
      version: secretVersion,
      issuedAt: timestamp,
      previousVersion: secretVersion
        .optional()
        .describe('The version that signs too, until `overlapEndsAt`.'),
      overlapEndsAt: timestamp.optional(),
    })
    .optional()
    .describe('Facts about the signing secret, never the secret.'),
  lastDelivery: z
    .object({
      state: deliveryState,
      at: timestamp,
      statusCode: integer(100, 599).optional().describe("The HTTP status of the receiver's answer."),
    })
    .optional(),
});
export type CallbackEndpoint = z.output<typeof callbackEndpoint>;

export const createCallbackBody = z
  .strictObject({
    endpointId: identifier
      .optional()
      .describe('Chosen by the caller, so that a lost answer can be found again.'),
    alias,
    kind: callbackKind.default('webhook'),
    url: callbackUrl.optional(),
    relay: relayInput.optional(),
    relayGroup: relayGroupInput.optional(),
    origin: endpointOriginInput.optional(),
  })
  .superRefine((body, context) => {
    const wanted = DESTINATION_FIELD[body.kind];
    if (body[wanted] === undefined) {
      context.addIssue({
        code: 'custom',
        path: [wanted],
        message: `State ${wanted}: the kind ${body.kind} needs it.`,
        params: { code: 'required' },
      });
    }
    for (const field of DESTINATIONS) {
      if (field === wanted || body[field] === undefined) continue;
      context.addIssue({
        code: 'custom',
        path: [field],
        message: `Remove ${field}: an endpoint of kind ${body.kind} states ${wanted} alone.`,
        params: { code: 'destination_mismatch' },
      });
    }
  });

/** The update itself checks that the destination fits the kind of the stored endpoint. */
export const updateCallbackBody = z
  .strictObject(
    {
      lifecycle: callbackLifecycle.optional(),
      alias: alias.optional(),
      url: callbackUrl.optional(),
      relay: relayInput.optional(),
      relayGroup: relayGroupInput.optional(),
    },
    {
      error: hintsForUnknown({
        kind: 'Remove it: the kind of an endpoint cannot change.',
        endpointId: 'Remove it: the ID of an endpoint cannot change.',
        origin: 'Remove it: the operator sets the origin, with PUT /v1/callbacks/{endpointId}/origin.',
      }),
    },
  )
  .superRefine((body, context) => {
    const [, ...surplus] = DESTINATIONS.filter((field) => body[field] !== undefined);
    for (const field of surplus) {
      context.addIssue({
        code: 'custom',
        path: [field],
        message: 'State one destination: the one that the kind of the endpoint names.',
        params: { code: 'destination_mismatch' },
      });
    }
  });

export const rotateSecretBody = z.strictObject({
  overlapSeconds: integer(0, 900)
    .default(SIGNING_OVERLAP_SECONDS)
    .describe('How long the old secret stays valid.'),
});

export const callbackIssueResult = z.object({
  endpoint: callbackEndpoint,
  replayed: z.boolean(),
  signingSecret: signingSecret.optional(),
});

export const setDefaultCallbackBody = z.strictObject({
  endpointId: identifier.nullable().describe('Null clears the default.'),
  expectedEndpointId: identifier
    .optional()
    .describe('An endpoint of the project: 412, and no change, if it is not the default.'),
});
export const defaultCallbackResult = z.object({ endpointId: identifier.nullable() });

export const testDeliveryResult = z.object({
  delivered: z.boolean(),
  statusCode: integer(100, 599).optional().describe("The HTTP status of the receiver's answer."),
  latencyMs: integer(0, MAX_SAFE).optional(),
  body: z.string().optional().describe("The first 1 KiB of the receiver's answer."),
  error: z.string().optional().describe('A class such as `timeout`, `connection_refused`, `tls`.'),
  deliveryId: identifier,
});
