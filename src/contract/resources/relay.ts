// The messaging relay: whom an endpoint tells, and the connection of a person (docs/contract/callbacks.md).
import { z } from 'zod';
import { text } from '../fields/field.ts';

const relayPart = text({ minimum: 1, maximum: 128 });
const contractVersion = z.string().min(1).max(64);

export const relayInput = z.strictObject({ actorId: relayPart, notifierId: relayPart });
export const relayGroupInput = z.strictObject({ notifierId: relayPart });

export const relay = z
  .object({ actorId: z.string(), contractVersion, notifierId: z.string() })
  .describe('Of `relay_subscriber`: the person who is told, and by which notifier.');
export const relayGroup = z
  .object({ contractVersion, notifierId: z.string() })
  .describe('Of `relay_group`: the notifier by which everyone in the organization is told.');

export const connectRelayBody = z.strictObject({
  notifierId: relayPart.describe('One of the notifiers of the installation.'),
});

const topicUrl = z.string().max(512);

export const relayConnection = z.object({
  actorId: z.string().min(1).max(128).describe('Names the person in `relay` of an endpoint.'),
  notifierId: z.string(),
  contractVersion,
  topicUrl: topicUrl
    .optional()
    .describe(
      'What the person subscribes to. Shown once, here: a replay has none. Who knows it may read it.',
    ),
  groupTopicUrl: topicUrl
    .optional()
    .describe('The same for everyone in the organization: where `relay_group` sends. A replay has none.'),
  replayed: z.boolean(),
});
