// The messaging relay: who is connected to it, and to which topic an endpoint sends (docs/contract/callbacks.md, "The
// relay"). Topics are secrets: they leave by the answer of `connectRelay` alone.
import { createHash } from 'node:crypto';
import { newTopic, RELAY_CONTRACT_VERSION, type Relay, topicUrlOf } from '../../delivery/relay/relay.ts';
import type { RelayDestination } from '../../domain/callback.ts';
import { newUuid } from '../../domain/id.ts';
import { invalidField, ProblemError } from '../../domain/problem.ts';
import type { EndpointRow } from '../../store/callbacks/callback-endpoints.ts';
import type { Moved } from '../../store/callbacks/endpoint-changes.ts';
import {
  fillRelayTopic,
  findRelayTopic,
  insertRelayTopic,
  type KnownTopic,
  type RelayTopic,
  relayTopicPlace,
  replaceRelayTopic,
  type TopicOwner,
} from '../../store/callbacks/relay-topics.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';

type Sealing = Pick<ServiceContext, 'secrets'>;

/** What states a destination of a relay kind: one of the two. */
interface RelayInput {
  relay?: RelayDestination;
  relayGroup?: RelayDestination;
}

/** Throws `relay_not_configured`, and `validation_failed` for a notifier that the installation does not have. */
export function requireRelay(
  { relay }: Pick<ServiceContext, 'relay'>,
  notifierId: string,
  path: string,
): Relay {
  if (!relay) {
    throw new ProblemError('relay_not_configured', {
      detail: 'This installation has no messaging relay: use an endpoint of kind webhook.',
    });
  }
  if (relay.notifiers.includes(notifierId)) return relay;
  const names = relay.notifiers.join(', ').slice(0, 512);
  throw invalidField(path, `Use a notifier of this installation: ${names}.`, 'unknown_notifier');
}

/** As requireRelay, for the destination that the body of an endpoint states. */
export function requireRelayFor(
  context: Pick<ServiceContext, 'relay'>,
  { relay, relayGroup }: RelayInput,
): void {
  const field = relay ? 'relay' : 'relayGroup';
  requireRelay(context, (relay ?? relayGroup)?.notifierId ?? '', `${field}.notifierId`);
}

/** Whom a patch lets an endpoint of a relay kind tell in place of whom; undefined where that stays. */
export function relayMoveOf(endpoint: EndpointRow, patch: RelayInput): Moved<RelayDestination> | undefined {
  const to = patch.relay ?? patch.relayGroup;
  if (!to) return undefined;
  const { notifierId } = endpoint.relay ?? endpoint.relayGroup ?? {};
  const actorId = endpoint.relay?.actorId;
  if (actorId === to.actorId && notifierId === to.notifierId) return undefined;
  return { from: notifierId === undefined ? undefined : { actorId, notifierId }, to };
}

/**
 * What the row of an endpoint holds of its destination; nothing for a webhook. The first endpoint of a group makes the
 * topic of the organization. Throws `conflict` for a person who is not connected, in this organization or at all.
 */
export async function findRelayed(
  tx: Queryable,
  { secrets }: Sealing,
  { relay, relayGroup, organizationId }: RelayInput & { organizationId: string },
  nowMs: number,
): Promise<Pick<EndpointRow, 'relay' | 'relayGroup' | 'relayTopicId'>> {
  const contractVersion = RELAY_CONTRACT_VERSION;
  if (relay) {
    const { actorId = '', notifierId } = relay;
    const topic = await findRelayTopic(tx, { organizationId, notifierId, actorId });
    if (!topic) throw notConnected(notifierId);
    return { relay: { actorId, notifierId, contractVersion }, relayTopicId: topic.topicId };
  }
  if (!relayGroup) return {};
  const { notifierId } = relayGroup;
  const topic = await ensureTopic(tx, { secrets }, { organizationId, notifierId }, nowMs);
  return { relayGroup: { notifierId, contractVersion }, relayTopicId: topic.topicId };
}

function notConnected(notifierId: string): ProblemError {
  const message = `This person is not connected to ${notifierId}.`;
  return new ProblemError('conflict', {
    detail: `${message} They connect first, signed in, by POST /v1/relay/connections.`,
    fieldErrors: [{ code: 'not_connected', message, path: 'relay.actorId' }],
  });
}

export interface RelayConnection {
  actorId: string;
  notifierId: string;
  contractVersion: string;
  /** What phones subscribe to, with the topics in the clear: shown once. */
  topicUrl: string;
  groupTopicUrl: string;
}

/**
 * Connects a person to a notifier: with a new topic each time, which takes the place of the one before for all endpoints
 * that name the person. The topic of the organization stays. `url` is that of the relay.
 */
export async function connectRelay(
  tx: Queryable,
  { secrets }: Sealing,
  { caller, notifierId, url }: { caller: Caller; notifierId: string; url: string },
  nowMs: number,
): Promise<RelayConnection> {
  const { organizationId } = caller;
  const actorId = personIdOf(caller);
  const topic = newTopic();
  const owner = { organizationId, notifierId, actorId };
  const made = sealTopic(secrets, newUuid(), topic);
  if (!(await insertRelayTopic(tx, owner, made, nowMs))) {
    const { topicId } = await requireTopic(tx, owner);
    await replaceRelayTopic(tx, sealTopic(secrets, topicId, topic), nowMs);
  }
  const groupTopic = await openGroupTopic(tx, { secrets }, { organizationId, notifierId }, nowMs);
  return {
    actorId,
    notifierId,
    contractVersion: RELAY_CONTRACT_VERSION,
    topicUrl: topicUrlOf({ url }, topic),
    groupTopicUrl: topicUrlOf({ url }, groupTopic),
  };
}

/**
 * The id by which endpoints name a person: a digest of issuer and subject, since two issuers may give one subject to two
 * people, and a subject may be longer than a field.
 */
export function personIdOf({ issuer, actor }: Pick<Caller, 'issuer' | 'actor'>): string {
  const digest = createHash('sha256').update(JSON.stringify([issuer, actor.id]));
  return `sha256:${digest.digest('hex')}`;
}

/**
 * The topic of the organization. Only one whose key was given up for good is replaced, under the same id (docs/operations.md,
 * "Encryption keys"): of calls that do so at once one does, and all show what that made. Throws `temporarily_unavailable`
 * where this process lacks the key: another one, or this one after its restart, may have it.
 */
async function openGroupTopic(
  tx: Queryable,
  { secrets }: Sealing,
  owner: TopicOwner,
  nowMs: number,
): Promise<string> {
  const { topicId, topicBox } = await ensureTopic(tx, { secrets }, owner, nowMs);
  const place = relayTopicPlace(topicId);
  if (topicBox === null) {
    const topic = newTopic();
    if (await fillRelayTopic(tx, sealTopic(secrets, topicId, topic), nowMs)) return topic;
    return await openGroupTopic(tx, { secrets }, owner, nowMs);
  }
  try {
    return secrets.open(topicBox, place);
  } catch (cause) {
    throw new ProblemError('temporarily_unavailable', {
      detail:
        'The topic of the organization cannot be read, because an encryption key is missing here. Nobody was connected. Try again later; if it persists, tell whoever runs the installation: the log names the key.',
      retryAfterSeconds: 60,
      cause,
    });
  }
}

/** The owner's topic. It is made once. */
async function ensureTopic(
  tx: Queryable,
  { secrets }: Sealing,
  owner: TopicOwner,
  nowMs: number,
): Promise<KnownTopic> {
  const known = await findRelayTopic(tx, owner);
  if (known) return known;
  await insertRelayTopic(tx, owner, sealTopic(secrets, newUuid(), newTopic()), nowMs);
  return await requireTopic(tx, owner);
}

async function requireTopic(tx: Queryable, owner: TopicOwner): Promise<KnownTopic> {
  const topic = await findRelayTopic(tx, owner);
  if (!topic) throw new Error('The topic that was just inserted is not there.');
  return topic;
}

function sealTopic(secrets: Sealing['secrets'], topicId: string, topic: string): RelayTopic {
  return { topicId, topicBox: secrets.seal(topic, relayTopicPlace(topicId)) };
}
