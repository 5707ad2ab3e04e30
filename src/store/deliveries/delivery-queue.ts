// Claims deliveries under a lease from the queues that due-queues.ts finds; claim-statements.ts decides which of them.
// delivery-results.ts writes the outcome of attempts. Lock order: claims skip rows that others have locked, and wait for nothing.
import type { CancellationReason, EndpointKind } from '../../domain/callback.ts';
import type { EndpointRef } from '../callbacks/callback-endpoints.ts';
import { type Columns, column, rowReader, sql } from '../postgres/columns.ts';
import { isDistributed } from '../postgres/engine.ts';
import { fromMillis, wholeMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { readShards } from '../postgres/shards.ts';
import { ANYWHERE, claimedPlaces, type Place, placeBehind } from './claim-statements.ts';
import { DELIVERY, type DeliveryRow, type OutboxRow } from './deliveries.ts';
import { type QueueRef, queueKeyOf } from './due-queues.ts';

/** Another dispatcher takes over the deliveries of a dead one when its leases end (docs/contract/incidents.md). */
export const LEASE_MS = 30_000;

/** A delivery that its owner may send until the lease ends, with everything that an attempt needs. */
export interface ClaimedDelivery
  extends Pick<
    DeliveryRow & OutboxRow,
    'projectId' | 'deliveryId' | 'incidentId' | 'event' | 'webhookId' | 'body'
  > {
  endpoint: EndpointRef;
  /** Attempts before this one. */
  attemptCount: number;
  createdMs: number;
  /** The end of the lease: no two leases of a delivery have the same. */
  leaseUntilMs: number;
  kind: EndpointKind;
  /** It must not be sent. */
  cancelReason?: CancellationReason;
  /** Of a relay kind: the topic to which it sends. */
  relayTopicId?: string;
  /**
   * Sealed: the URL of a webhook, the topic of a relay kind. Absent when the endpoint is removed. The deliveries of one
   * claim to one endpoint share the object.
   */
  urlBox?: Buffer;
  /** The sealed secrets that sign now, newest first: one, or two in the overlap of a rotation. Shared like `urlBox`. */
  secretBoxes: readonly Buffer[];
  /** Of its project, where the database has shards. */
  shard?: number;
}

type Boxes = Pick<ClaimedDelivery, 'urlBox' | 'secretBoxes'>;

const claimedColumns = (place: Place): Columns<Omit<ClaimedDelivery, keyof Boxes | 'shard'>> => ({
  projectId: DELIVERY.projectId,
  deliveryId: DELIVERY.deliveryId,
  endpoint: { projectId: DELIVERY.endpointProjectId, endpointId: DELIVERY.endpointId },
  incidentId: DELIVERY.incidentId,
  event: DELIVERY.event,
  attemptCount: DELIVERY.attemptCount,
  createdMs: DELIVERY.createdMs,
  leaseUntilMs: column.clockMoment('lease_until'),
  webhookId: DELIVERY.webhookId,
  body: DELIVERY.body,
  kind: column.computed('kind', 'e.kind'),
  relayTopicId: column.computed('relay_topic_id', 'e.relay_topic_id'),
  // A removed endpoint keeps its row. An endpoint without a row counts as removed. OFFSET: a probe of the index, as below.
  // A redelivery is sent although the monitor is deleted.
  cancelReason: column.computed(
    'cancel_reason',
    `case
      when d.monitor_key is not null and d.redelivery_of is null and not exists (
        select from monitors m where m.project_id = d.project_id and m.monitor_key = d.monitor_key${place('m')} offset 0)
      then 'monitor_deleted'
      when e.lifecycle is null or e.removed_at is not null then 'endpoint_removed'
      when e.lifecycle = 'disabled' or d.created_at <= e.canceled_until then 'endpoint_disabled'
    end`,
  ),
});
const toClaimed = rowReader(claimedColumns(ANYWHERE));

interface BoxColumns {
  endpoint_project_id: string;
  endpoint_id: string;
  /** Set in one row of each endpoint, null in the others. */
  url_box: Buffer | null;
  secret_boxes: Buffer[] | null;
}

/** Rows that one claim looks at beyond its places, over all queues, and at least in each of them. */
const MOST_LOOKS = 1_024;
const LEAST_LOOKS = 16;

/** What a claim returns of the CTEs `claimed` and `behind`; `given` are columns of its first row `m`. */
const claimAnswer = (
  place: Place,
  looks: string,
  [given, first]: readonly [string, string],
) => `select ${given}, ${sql.select(claimedColumns(place), 'd')},
    case d.place when 1 then coalesce(e.url_box, (
      select t.topic_box from relay_topics t where t.topic_id = e.relay_topic_id offset 0)) end as url_box,
    case d.place when 1 then (
      select array_agg(s.secret_box order by s.version desc) from signing_secrets s
      where s.project_id = e.project_id and s.endpoint_id = e.endpoint_id
        and (s.ends_at is null or s.ends_at > clock_timestamp())) end as secret_boxes
  from (select array(
    select behind.place::integer from behind group by behind.place having count(*) >= ${looks}) as passed${first}) m
  left join (
    select c.*, row_number() over (partition by endpoint_project_id, endpoint_id) as place from claimed c) d on true
  left join callback_endpoints e on e.project_id = d.endpoint_project_id and e.endpoint_id = d.endpoint_id
  order by d.next_attempt_at`;

const CLAIM = `with ${claimedPlaces(ANYWHERE, '$7')},
  moved as (
    update deliveries d set next_attempt_at = ${placeBehind(ANYWHERE)}
    where d.ctid = any (array(select behind.ctid from behind))),
  claimed as (
    update deliveries d set lease_owner = $6,
      lease_until = (select now_at from moment) + interval '${LEASE_MS} milliseconds'
    where d.ctid = any (array(select due.ctid from due))
    returning d.*)
  ${claimAnswer(ANYWHERE, '$7', ['m.passed', ''])}`;

const inShard: Place = (alias) => ` and ${alias}.project_id = any($7::uuid[])`;

/** On Citus: locks what `CLAIM` takes and moves, and reads it. The updates are statements of their own. */
const LOCK_IN_SHARD = `with ${claimedPlaces(inShard, '$6')},
  claimed as (
    select d.* from deliveries d where d.ctid = any (array(select due.ctid from due))${inShard('d')})
  ${claimAnswer(inShard, '$6', [
    'm.passed, m.now_ms, m.moved',
    `, (select ${wholeMillis('now_at')} from moment) as now_ms, (
      select json_agg(json_build_object('projectId', d.project_id, 'deliveryId', d.delivery_id, 'at', ${placeBehind(inShard)}))
      from deliveries d where d.ctid = any (array(select behind.ctid from behind))${inShard('d')}) as moved`,
  ])}`;

const MOVE_IN_SHARD = `update deliveries d set next_attempt_at = v.at
  from unnest($1::uuid[], $2::text[], $3::timestamptz[]) as v (project_id, delivery_id, at)
  where d.project_id = v.project_id and d.delivery_id = v.delivery_id and d.project_id = any($1::uuid[])`;

const LEASE_IN_SHARD = `update deliveries d set lease_owner = $3, lease_until = ${fromMillis('$4')}
  from unnest($1::uuid[], $2::text[]) as v (project_id, delivery_id)
  where d.project_id = v.project_id and d.delivery_id = v.delivery_id and d.project_id = any($1::uuid[])`;

/** What a claim asks of a queue. */
export interface WantedDeliveries extends QueueRef {
  /** Deliveries at most. */
  places: number;
  /** Only deliveries that became due then or later, ms: `firstMs` of a poll. Undefined: all (see `withinMs`). */
  sinceMs?: number;
  /** Of its project, where the database has shards. */
  shard?: number;
}

export interface Claim {
  /** In the order of what was wanted. */
  deliveries: ClaimedDelivery[];
  /** Queues in which so much went behind what it waits for that there may be something to send behind that. */
  passed: QueueRef[];
}

interface ClaimRow extends BoxColumns {
  passed: number[];
  /** Null in the one row of a claim that took nothing. */
  delivery_id: string | null;
}

/** What may be asked for in one claim: on Citus the queues of one shard. */
export async function splitByShard(
  db: Queryable,
  wanted: readonly WantedDeliveries[],
): Promise<(readonly WantedDeliveries[])[]> {
  if (!isDistributed()) return [wanted];
  const shards = await readShards(
    db,
    wanted.map(({ projectId }) => projectId),
  );
  const placed = wanted.map((one) => ({ ...one, shard: shards.get(one.projectId) }));
  return [...Map.groupBy(placed, ({ shard }) => shard).values()];
}

/**
 * Takes at most `places` due deliveries of each queue for `owner`, for 30 s. On Citus, where it is several statements, call
 * it in a transaction of its own, with queues of one shard.
 */
export async function claimDeliveries(
  db: Queryable,
  owner: string,
  wanted: readonly WantedDeliveries[],
): Promise<Claim> {
  const asked = [
    wanted.map((one) => one.projectId),
    wanted.map((one) => one.endpoint.projectId),
    wanted.map((one) => one.endpoint.endpointId),
    wanted.map((one) => one.places),
    wanted.map((one) => one.sinceMs ?? 0),
  ];
  const looks = Math.max(LEAST_LOOKS, Math.floor(MOST_LOOKS / wanted.length));
  if (isDistributed()) return toClaim(await claimInShard(db, owner, [...asked, looks]), wanted);
  const { rows } = await db.query<ClaimRow>({
    name: 'claim-deliveries',
    text: CLAIM,
    values: [...asked, owner, looks],
  });
  return toClaim(rows, wanted);
}

interface LockedRow extends ClaimRow {
  project_id: string;
  now_ms: number;
  /** Deliveries that go behind others, and their places. */
  moved: { projectId: string; deliveryId: string; at: string }[] | null;
}

async function claimInShard(tx: Queryable, owner: string, asked: unknown[]): Promise<ClaimRow[]> {
  const { rows } = await tx.query<LockedRow>({
    name: 'lock-due-deliveries',
    text: LOCK_IN_SHARD,
    values: [...asked, asked[0]],
  });
  const { moved, now_ms: nowMs } = rows[0] ?? {};
  if (moved) {
    const values = [
      moved.map(({ projectId }) => projectId),
      moved.map(({ deliveryId }) => deliveryId),
      moved.map(({ at }) => at),
    ];
    await tx.query({ name: 'move-deliveries', text: MOVE_IN_SHARD, values });
  }
  const taken = rows.filter((row) => row.delivery_id !== null);
  const leaseUntilMs = (nowMs ?? 0) + LEASE_MS;
  if (taken.length > 0) {
    const keys = [taken.map((row) => row.project_id), taken.map((row) => row.delivery_id)];
    await tx.query({
      name: 'lease-deliveries',
      text: LEASE_IN_SHARD,
      values: [...keys, owner, leaseUntilMs],
    });
  }
  return rows.map((row) => ({ ...row, lease_until: leaseUntilMs }));
}

function toClaim(rows: readonly ClaimRow[], wanted: readonly WantedDeliveries[]): Claim {
  const taken = rows.filter((row) => row.delivery_id !== null);
  const boxes = new Map<string, Boxes>();
  for (const row of taken) {
    if (!row.url_box) continue;
    boxes.set(endpointKeyOf(row), { urlBox: row.url_box, secretBoxes: row.secret_boxes?.slice(0, 2) ?? [] });
  }
  const deliveries = taken.map((row) => ({
    ...toClaimed(row),
    ...(boxes.get(endpointKeyOf(row)) ?? NO_BOXES),
    shard: wanted[0]?.shard,
  }));
  const places = new Map(wanted.map((one, index) => [queueKeyOf(one), index]));
  const placeOf = (one: ClaimedDelivery) => places.get(queueKeyOf(one)) ?? 0;
  return {
    deliveries: deliveries.sort((one, other) => placeOf(one) - placeOf(other)),
    passed: rows[0]?.passed.flatMap((place) => wanted[place - 1] ?? []) ?? [],
  };
}

const NO_BOXES: Boxes = { secretBoxes: [] };

function endpointKeyOf(row: BoxColumns): string {
  return `${row.endpoint_project_id} ${row.endpoint_id}`;
}
