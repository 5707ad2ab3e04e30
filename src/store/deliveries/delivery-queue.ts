// Deliveries as a queue: finds endpoints with due deliveries, and claims deliveries under a lease. delivery-results.ts
// writes the outcome of attempts. Lock order: claims skip rows that others have locked, and wait for nothing.
import type { EndpointKind, EndpointLifecycle } from '../../domain/callback.ts';
import type { EndpointRef } from '../callbacks/callback-endpoints.ts';
import { type Columns, column, rowReader, sql } from '../postgres/columns.ts';
import { fromMillis, wholeMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { DELIVERY, type DeliveryRow, type OutboxRow } from './deliveries.ts';

/** Another dispatcher takes over the deliveries of a dead one when its leases end (docs/contract/incidents.md). */
const LEASE_MS = 30_000;

const LEASE = `clock_timestamp() + interval '${LEASE_MS} milliseconds'`;

// One step over the projects at whose endpoints anything waits, and one over the endpoints of a project: to the first
// waiting delivery of the next one (index deliveries_endpoint_pending). Deliveries that wait for an earlier event of
// their incident count here too; the claim leaves them out.
const nextProject = (after: string, bound: string) => `select d.endpoint_project_id
  from deliveries d
  where d.state in ('pending', 'failing') and d.endpoint_project_id > ${after} ${bound}
  order by d.endpoint_project_id
  limit 1`;
const nextEndpoint = (after: string, bound: string) => `select d.endpoint_id, d.next_attempt_at
  from deliveries d
  where d.state in ('pending', 'failing') and d.endpoint_project_id = w.endpoint_project_id
    and d.endpoint_id > ${after} ${bound}
  order by d.endpoint_id, d.next_attempt_at
  limit 1`;

// Each project has the same part of the steps, whatever waits at the endpoints: however many wait in one of them, the
// poll takes no longer, and finds what is due in the others.
const findEndpoints = (bound: string) => `with recursive moment as materialized (
    select clock_timestamp() as now_at),
  waiting as (
    (${nextProject("'00000000-0000-0000-0000-000000000000'", bound)})
    union all
    select n.* from waiting w cross join lateral (${nextProject('w.endpoint_project_id', bound)}) n),
  part as materialized (select greatest($3 / greatest(count(*), 1), $4::bigint) as steps from waiting)
  select w.endpoint_project_id, e.endpoint_id, ${wholeMillis('e.next_attempt_at')} as first_ms,
    e.next_attempt_at <= moment.now_at as is_due, e.step = part.steps as is_last
  from waiting w
  left join unnest($1::uuid[], $2::text[]) as k (project_id, after_id) on k.project_id = w.endpoint_project_id
  cross join lateral (
    with recursive endpoints as (
      (select n.*, 1::bigint as step from (${nextEndpoint("coalesce(k.after_id, '')", bound)}) n)
      union all
      select n.*, e.step + 1
      from endpoints e cross join lateral (${nextEndpoint('e.endpoint_id', bound)}) n)
    select * from endpoints limit (select steps from part)) e, part, moment
  where e.next_attempt_at <= moment.now_at or e.step = part.steps
  order by w.endpoint_project_id, e.endpoint_id`;

const FIND_DUE_ENDPOINTS = findEndpoints('');
// The index itself has what leaves other entries out: no row is read for them. A full poll is a third slower with a bound.
const FIND_NEWLY_DUE_ENDPOINTS = findEndpoints(
  `and d.next_attempt_at > (select now_at - $5 * interval '1 millisecond' from moment)
    and d.next_attempt_at <= (select now_at from moment)`,
);
/** However many projects there are. */
const LEAST_STEPS = 10;

export interface EndpointPoll {
  /** Where the last poll ended in projects with more endpoints than their part: it goes on behind them. */
  after?: readonly EndpointRef[];
  /** Endpoints that are looked at, over all projects. Each has an equal part of them. */
  limit: number;
  /**
   * Only deliveries that became due in this time. An old snapshot elsewhere keeps the index entries of deliveries that
   * have ended, and a poll without a bound reads the row of each. Undefined: all.
   */
  withinMs?: number;
}

/** An endpoint with a due delivery. */
export interface DueEndpoint extends EndpointRef {
  /** When the first of the deliveries that the poll looked at became due, ms. */
  firstMs: number;
}

export interface FoundEndpoints {
  /** In the order of the keys. */
  due: DueEndpoint[];
  /** Where the poll ended in projects that may have more. */
  cut: EndpointRef[];
}

/** Endpoints with due deliveries. One index probe for each endpoint that it looks at. */
export async function findDueEndpoints(
  db: Queryable,
  { after = [], limit, withinMs }: EndpointPoll,
): Promise<FoundEndpoints> {
  const values = [
    after.map(({ projectId }) => projectId),
    after.map(({ endpointId }) => endpointId),
    limit,
    LEAST_STEPS,
  ];
  const { rows } = await db.query<{
    endpoint_project_id: string;
    endpoint_id: string;
    first_ms: number;
    is_due: boolean;
    is_last: boolean;
  }>(
    withinMs === undefined
      ? { name: 'find-due-endpoints', text: FIND_DUE_ENDPOINTS, values }
      : { name: 'find-newly-due-endpoints', text: FIND_NEWLY_DUE_ENDPOINTS, values: [...values, withinMs] },
  );
  const refOf = (row: (typeof rows)[number]) => ({
    projectId: row.endpoint_project_id,
    endpointId: row.endpoint_id,
  });
  return {
    due: rows.filter((row) => row.is_due).map((row) => ({ ...refOf(row), firstMs: row.first_ms })),
    cut: rows.filter((row) => row.is_last).map(refOf),
  };
}

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
  kind: EndpointKind;
  lifecycle: EndpointLifecycle;
  isRemoved: boolean;
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
  webhookId: DELIVERY.webhookId,
  body: DELIVERY.body,
  kind: column.computed('kind', 'e.kind'),
  lifecycle: column.computed('lifecycle', 'e.lifecycle'),
  // A removed endpoint keeps its row. An endpoint without a row counts as removed.
  isRemoved: column.computed('is_removed', '(e.lifecycle is null or e.removed_at is not null)'),
};
const toClaimed = rowReader(CLAIMED);

interface BoxColumns {
  endpoint_project_id: string;
  endpoint_id: string;
  /** Set in one row of each endpoint, null in the others. */
  url_box: Buffer | null;
  secret_boxes: Buffer[] | null;
}

// The events of an incident are sent in order: each waits until those before it have ended
// (docs/contract/incidents.md). Nothing waits for a redelivery. FOR UPDATE checks each row again under the lock and
// skips it if another claim took it.
//
// The planner knows neither how many places a claim has nor how few rows it takes. Where many deliveries wait it would
// join by reading the table. So the update finds each row where the lock found it (`ctid`, which nobody changes while we
// hold the lock; a row that changed between our snapshot and the lock is left to the next claim), OFFSET keeps the
// sub-select a probe of the index (deliveries_incident) for each row, and the sub-selects in `unnest` hide the length of
// the arrays: a plan for a few endpoints looks cheaper than the generic one, so Postgres would plan again each time.
const CLAIM = `with moment as materialized (select clock_timestamp() as now_at),
  due as materialized (
    select c.* from unnest((select $1::uuid[]), (select $2::text[]), (select $3::integer[]), (select $4::bigint[]))
      as k (project_id, endpoint_id, places, since_ms)
    cross join moment
    cross join lateral (
      select d.ctid from deliveries d
      where d.endpoint_project_id = k.project_id and d.endpoint_id = k.endpoint_id
        and d.state in ('pending', 'failing') and d.next_attempt_at <= moment.now_at
        and d.next_attempt_at >= ${fromMillis('k.since_ms')}
        and (d.lease_until is null or d.lease_until <= moment.now_at)
        and not exists (
          select from deliveries e
          where e.project_id = d.project_id and e.incident_id = d.incident_id and e.sequence < d.sequence
            and e.state in ('pending', 'failing') and e.redelivery_of is null
          offset 0)
      order by d.next_attempt_at
      limit k.places
      for update of d skip locked) c),
  claimed as (
    update deliveries d set lease_owner = $5, lease_until = ${LEASE}
    where d.ctid = any (array(select due.ctid from due))
    returning d.*)
  select ${sql.select(CLAIMED, 'd')},
    case d.place when 1 then e.url_box end as url_box,
    case d.place when 1 then (
      select array_agg(s.secret_box order by s.version desc) from signing_secrets s
      where s.project_id = e.project_id and s.endpoint_id = e.endpoint_id
        and (s.ends_at is null or s.ends_at > clock_timestamp())) end as secret_boxes
  from (select c.*, row_number() over (partition by endpoint_project_id, endpoint_id) as place from claimed c) d
  left join callback_endpoints e on e.project_id = d.endpoint_project_id and e.endpoint_id = d.endpoint_id
  order by d.next_attempt_at`;

/** What a claim asks of an endpoint. */
export interface WantedDeliveries extends EndpointRef {
  /** Deliveries at most. */
  places: number;
  /** Only deliveries that became due then or later, ms: `firstMs` of a poll. Undefined: all (see `withinMs`). */
  sinceMs?: number;
}

/** Takes at most `places` due deliveries of each endpoint for `owner`, for 30 s. */
export async function claimDeliveries(
  db: Queryable,
  owner: string,
  wanted: readonly WantedDeliveries[],
): Promise<ClaimedDelivery[]> {
  const { rows } = await db.query<BoxColumns>({
    name: 'claim-deliveries',
    text: CLAIM,
    values: [
      wanted.map((one) => one.projectId),
      wanted.map((one) => one.endpointId),
      wanted.map((one) => one.places),
      wanted.map((one) => one.sinceMs ?? 0),
      owner,
    ],
  });
  const boxes = new Map<string, Boxes>();
  for (const row of rows) {
    if (!row.url_box) continue;
    boxes.set(endpointKeyOf(row), { urlBox: row.url_box, secretBoxes: row.secret_boxes?.slice(0, 2) ?? [] });
  }
  return rows.map((row) => ({ ...toClaimed(row), ...(boxes.get(endpointKeyOf(row)) ?? NO_BOXES) }));
}

const NO_BOXES: Boxes = { secretBoxes: [] };

function endpointKeyOf(row: BoxColumns): string {
  return `${row.endpoint_project_id} ${row.endpoint_id}`;
}

/** Releases those of the leases that `owner` still holds, so that others need not wait for their end. */
export async function releaseLeases(
  db: Queryable,
  owner: string,
  deliveries: readonly { projectId: string; deliveryId: string }[],
): Promise<void> {
  if (deliveries.length === 0) return;
  await db.query(
    `update deliveries d set lease_owner = null, lease_until = null
     from unnest($1::uuid[], $2::text[]) as k (project_id, delivery_id)
     where d.project_id = k.project_id and d.delivery_id = k.delivery_id and d.lease_owner = $3`,
    [deliveries.map((one) => one.projectId), deliveries.map((one) => one.deliveryId), owner],
  );
}
