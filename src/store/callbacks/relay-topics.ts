// Topics of the messaging relay: one for a person at a notifier, one for the organization at a notifier. The topic itself
// is sealed. Lock order: after endpoints; then a person's topic, then the one of the
// organization: no transaction locks two of one kind.
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { placeOf } from '../postgres/secret-box.ts';

/** Whose topic it is. Without an actor: that of the whole organization. */
export interface TopicOwner {
  organizationId: string;
  notifierId: string;
  actorId?: string;
}

export interface RelayTopic {
  topicId: string;
  /** Sealed for `relayTopicPlace`. */
  topicBox: Buffer;
}

/** Null: whoever runs the installation has given its key up. */
export interface KnownTopic extends Pick<RelayTopic, 'topicId'> {
  topicBox: Buffer | null;
}

/** The associated data of a topic's box. */
export const relayTopicPlace = (topicId: string): string => placeOf(topicId, '', 'relay-topic');

const TOPIC = `select topic_id as "topicId", topic_box as "topicBox" from relay_topics`;

/** The topic of an owner (index relay_topics_actor). */
export async function findRelayTopic(db: Queryable, owner: TopicOwner): Promise<KnownTopic | undefined> {
  const { rows } = await db.query<KnownTopic>(
    `${TOPIC} where organization_id = $1 and notifier_id = $2 and actor_id = $3`,
    keyOf(owner),
  );
  return rows[0];
}

/** What an endpoint sends to. Undefined: its key was given up. */
export async function findRelayTopicBox(db: Queryable, topicId: string): Promise<Buffer | undefined> {
  const { rows } = await db.query<KnownTopic>(`${TOPIC} where topic_id = $1`, [topicId]);
  return rows[0]?.topicBox ?? undefined;
}

/** False when the owner has a topic: it stays. Waits for a transaction that inserts one for the same owner. */
export async function insertRelayTopic(
  tx: Queryable,
  owner: TopicOwner,
  { topicId, topicBox }: RelayTopic,
  nowMs: number,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `insert into relay_topics (topic_id, organization_id, notifier_id, actor_id, topic_box, created_at, updated_at)
     values ($4, $1, $2, $3, $5, ${fromMillis('$6')}, ${fromMillis('$6')})
     on conflict do nothing`,
    [...keyOf(owner), topicId, topicBox, nowMs],
  );
  return rowCount === 1;
}

/** The owner's endpoints keep the id, and send to the new topic from now on. */
export async function replaceRelayTopic(
  tx: Queryable,
  { topicId, topicBox }: RelayTopic,
  nowMs: number,
): Promise<void> {
  await tx.query(
    `update relay_topics set topic_box = $2, updated_at = ${fromMillis('$3')} where topic_id = $1`,
    [topicId, topicBox, nowMs],
  );
}

/** False when the topic has a box: it stays. Waits for a transaction that fills the same one. */
export async function fillRelayTopic(
  tx: Queryable,
  { topicId, topicBox }: RelayTopic,
  nowMs: number,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update relay_topics set topic_box = $2, updated_at = ${fromMillis('$3')}
     where topic_id = $1 and topic_box is null`,
    [topicId, topicBox, nowMs],
  );
  return rowCount === 1;
}

function keyOf({ organizationId, notifierId, actorId = '' }: TopicOwner): string[] {
  return [organizationId, notifierId, actorId];
}
