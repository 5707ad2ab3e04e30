// Claims deliveries under a lease from the queues that due-queues.ts finds. delivery-results.ts writes the outcome of
// attempts. Lock order: claims skip rows that others have locked, and wait for nothing.
import type { CancellationReason, EndpointKind } from '../../domain/callback.ts';
import type { EndpointRef } from '../callbacks/callback-endpoints.ts';
import { type Columns, column, rowReader, sql } from '../postgres/columns.ts';
import { fromMillis, wholeMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
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
  /** Sealed; absent when the endpoint is removed. The deliveries of one claim to one endpoint share the object. */
  urlBox?: Buffer;
  /** The sealed secrets that sign now, newest first: one, or two in the overlap of a rotation. Shared like `urlBox`. */
  secretBoxes: readonly Buffer[];
}

type Boxes = Pick<ClaimedDelivery, 'urlBox' | 'secretBoxes'>;

const CLAIMED: Columns<Omit<ClaimedDelivery, keyof Boxes>> = {
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
  // A removed endpoint keeps its row. An endpoint without a row counts as removed. OFFSET: a probe of the index, as below.
  // A redelivery is sent although the monitor is deleted.
  cancelReason: column.computed(
    'cancel_reason',
    `case
      when d.monitor_key is not null and d.redelivery_of is null and not exists (
        select from monitors m where m.project_id = d.project_id and m.monitor_key = d.monitor_key offset 0)
      then 'monitor_deleted'
      when e.lifecycle is null or e.removed_at is not null then 'endpoint_removed'
      when e.lifecycle = 'disabled' or d.created_at <= e.canceled_until then 'endpoint_disabled'
    end`,
  ),
};
const toClaimed = rowReader(CLAIMED);

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

/** The first due rows of the queue `k`. However many are due, a claim looks at no more of them. */
const LOOKED = `select d.ctid, d.* from deliveries d
  where d.endpoint_project_id = k.endpoint_project_id and d.endpoint_id = k.endpoint_id and d.project_id = k.project_id
    and d.state in ('pending', 'failing') and d.next_attempt_at <= moment.now_at
    and d.next_attempt_at >= ${fromMillis('k.since_ms')}
    and (d.lease_until is null or d.lease_until <= moment.now_at)
  order by d.next_attempt_at
  limit k.places + $7`;

/** The events for which `d` waits: the earlier ones of its incident (index deliveries_incident). */
const EARLIER = `deliveries e
  where e.project_id = d.project_id and e.incident_id = d.incident_id and e.sequence < d.sequence
    and e.state in ('pending', 'failing') and e.redelivery_of is null`;

/** The first of those, unless an attempt to it is under way: then it may end at any moment, and `d` stays where it is. */
const FIRST_EARLIER = `select e.* from (select e.* from ${EARLIER} order by e.sequence limit 1) e
  where e.lease_until is null or e.lease_until <= moment.now_at`;

// An event that waits goes behind the one for which it waits, so that claims pass it once for each attempt to that one
// and not again and again. The end of an endpoint ends all of its deliveries, so at one endpoint nothing can go out
// before that. At another endpoint, or from before a disabling of this one, the event before may be canceled at any time: it
// is looked at again when it has waited longer by a twentieth.
const PLACE_BEHIND = `(select case
    when e.endpoint_project_id = d.endpoint_project_id and e.endpoint_id = d.endpoint_id and not exists (
      select from callback_endpoints c
      where c.project_id = e.endpoint_project_id and c.endpoint_id = e.endpoint_id and e.created_at <= c.canceled_until
      offset 0)
      then e.next_attempt_at + (d.sequence - e.sequence) * interval '1 microsecond'
    else moment.now_at + greatest(interval '250 milliseconds',
      least(e.next_attempt_at - moment.now_at, (moment.now_at - d.created_at) / 20)) end
  from moment cross join lateral (${FIRST_EARLIER}) e)`;

// The events of an incident are sent in order: each waits until those before it have ended
// (docs/contract/incidents.md). Nothing waits for a redelivery. Where a queue has less to send than it has places, what
// waits there goes behind (PLACE_BEHIND). `for update` locks a row by its place (`ctid`, which nobody changes while we
// hold the lock); a row that changed between our snapshot and the lock is left to the next claim.
//
// The planner knows neither how many places a claim has nor how few rows it takes. Where many deliveries wait it would
// join by reading the table. So the updates find each row where the lock found it, OFFSET keeps the sub-select a probe of
// the index for each row, and the sub-selects in `unnest` hide the length of the arrays: a plan for a few queues looks
// cheaper than the generic one, so Postgres would plan again each time.
const CLAIM = `with moment as materialized (select clock_timestamp() as now_at),
  wanted as materialized (
    select * from unnest((select $1::uuid[]), (select $2::uuid[]), (select $3::text[]), (select $4::integer[]),
      (select $5::bigint[])) with ordinality
      as k (project_id, endpoint_project_id, endpoint_id, places, since_ms, place)),
  due as materialized (
    select k.place, c.* from wanted k cross join moment
    cross join lateral (
      select l.ctid from (${LOOKED}) d
      cross join lateral (select l.ctid from deliveries l where l.ctid = d.ctid for update skip locked) l
      where not exists (select from ${EARLIER} offset 0)
      limit k.places) c),
  behind as materialized (
    select k.place, l.ctid from wanted k
    left join (select due.place, count(*) as taken from due group by due.place) t on t.place = k.place
    cross join moment
    cross join lateral (${LOOKED}) d
    cross join lateral (select ${PLACE_BEHIND} > d.next_attempt_at as is_later) b
    cross join lateral (
      select l.ctid from deliveries l where l.ctid = d.ctid and b.is_later for update skip locked) l
    where coalesce(t.taken, 0) < k.places),
  moved as (
    update deliveries d set next_attempt_at = ${PLACE_BEHIND}
    where d.ctid = any (array(select behind.ctid from behind))),
  claimed as (
    update deliveries d set lease_owner = $6,
      lease_until = (select now_at from moment) + interval '${LEASE_MS} milliseconds'
    where d.ctid = any (array(select due.ctid from due))
    returning d.*)
  select m.passed, ${sql.select(CLAIMED, 'd')},
    case d.place when 1 then e.url_box end as url_box,
    case d.place when 1 then (
      select array_agg(s.secret_box order by s.version desc) from signing_secrets s
      where s.project_id = e.project_id and s.endpoint_id = e.endpoint_id
        and (s.ends_at is null or s.ends_at > clock_timestamp())) end as secret_boxes
  from (select array(
    select behind.place::integer from behind group by behind.place having count(*) >= $7) as passed) m
  left join (
    select c.*, row_number() over (partition by endpoint_project_id, endpoint_id) as place from claimed c) d on true
  left join callback_endpoints e on e.project_id = d.endpoint_project_id and e.endpoint_id = d.endpoint_id
  order by d.next_attempt_at`;

/** What a claim asks of a queue. */
export interface WantedDeliveries extends QueueRef {
  /** Deliveries at most. */
  places: number;
  /** Only deliveries that became due then or later, ms: `firstMs` of a poll. Undefined: all (see `withinMs`). */
  sinceMs?: number;
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

/** Takes at most `places` due deliveries of each queue for `owner`, for 30 s. */
export async function claimDeliveries(
  db: Queryable,
  owner: string,
  wanted: readonly WantedDeliveries[],
): Promise<Claim> {
  const { rows } = await db.query<ClaimRow>({
    name: 'claim-deliveries',
    text: CLAIM,
    values: [
      wanted.map((one) => one.projectId),
      wanted.map((one) => one.endpoint.projectId),
      wanted.map((one) => one.endpoint.endpointId),
      wanted.map((one) => one.places),
      wanted.map((one) => one.sinceMs ?? 0),
      owner,
      Math.max(LEAST_LOOKS, Math.floor(MOST_LOOKS / wanted.length)),
    ],
  });
  const taken = rows.filter((row) => row.delivery_id !== null);
  const boxes = new Map<string, Boxes>();
  for (const row of taken) {
    if (!row.url_box) continue;
    boxes.set(endpointKeyOf(row), { urlBox: row.url_box, secretBoxes: row.secret_boxes?.slice(0, 2) ?? [] });
  }
  const deliveries = taken.map((row) => ({
    ...toClaimed(row),
    ...(boxes.get(endpointKeyOf(row)) ?? NO_BOXES),
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

/**
 * Releases those of the leases that `owner` still holds, so that others need not wait for their end. A newer lease of the
 * same owner stays: this may come late, or twice.
 */
export async function releaseLeases(
  db: Queryable,
  owner: string,
  leases: readonly Pick<ClaimedDelivery, 'projectId' | 'deliveryId' | 'leaseUntilMs'>[],
): Promise<void> {
  if (leases.length === 0) return;
  await db.query({
    name: 'release-leases',
    text: `update deliveries d set lease_owner = null, lease_until = null
      from unnest($1::uuid[], $2::text[], $3::bigint[]) as k (project_id, delivery_id, lease_until_ms)
      where d.project_id = k.project_id and d.delivery_id = k.delivery_id and d.lease_owner = $4
        and ${wholeMillis('d.lease_until')} = k.lease_until_ms`,
    values: [
      leases.map((one) => one.projectId),
      leases.map((one) => one.deliveryId),
      leases.map((one) => one.leaseUntilMs),
      owner,
    ],
  });
}
