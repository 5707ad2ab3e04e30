// Change records of a monitor (docs/contract/monitors.md) and of a callback endpoint (docs/contract/callbacks.md).
import { z } from 'zod';
import { actor, correlationId, integer, MAX_SAFE, maintenanceWindow, timestamp } from '../fields/field.ts';
import { callbackLifecycle } from './callback.ts';
import { lifecycleAction } from './lifecycle.ts';
import { lifecycle } from './monitor.ts';

const common = {
  actor,
  configurationVersion: integer(0, MAX_SAFE).describe('The version that the change made.'),
  occurredAt: timestamp,
  sourceRequestId: correlationId.optional(),
};

const moved = z.object({ from: z.string().optional(), to: z.string().optional() });
const relayNames = z.object({ actorId: z.string().optional(), notifierId: z.string() });
const ofEndpoint = {
  ...common,
  configurationVersion: integer(1, MAX_SAFE).describe('The generation of the endpoint after the change.'),
  alias: moved.optional(),
  url: moved.optional().describe('Origins alone. They are equal where the path changed.'),
  relay: z
    .object({ from: relayNames.optional(), to: relayNames.optional() })
    .optional()
    .describe('Whom an endpoint of a relay kind tells, before and after.'),
  reason: z
    .string()
    .optional()
    .describe('Why, where no caller asked for it: `gone` after a 410 of the receiver.'),
};

export const callbackChange = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('configuration'),
    ...ofEndpoint,
    action: z.enum(['create', 'update', 'rotate_secret', 'set_default', 'clear_default']),
  }),
  z.object({
    kind: z.literal('lifecycle'),
    ...ofEndpoint,
    action: z.enum(['enable', 'disable', 'remove']),
    lifecycleFrom: callbackLifecycle,
    lifecycleTo: z.enum([...callbackLifecycle.options, 'removed']),
  }),
]);
export type CallbackChange = z.output<typeof callbackChange>;

export const monitorChange = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('configuration'), ...common }),
  z.object({
    kind: z.literal('lifecycle'),
    ...common,
    action: lifecycleAction,
    lifecycleFrom: lifecycle,
    lifecycleTo: lifecycle,
    maintenance: maintenanceWindow.optional(),
  }),
]);
export type MonitorChange = z.output<typeof monitorChange>;
