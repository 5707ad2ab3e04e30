// Cancellations: what is pending at an endpoint that is disabled or removed, or of a monitor that is deleted. The row is
// written in the transaction of that change, which is as fast with 100,000 pending deliveries as with none. Sweepers then
// cancel so many at a time. Meanwhile nothing is sent: a claim says that a delivery is canceled (delivery-queue.ts).
import type { CancellationReason } from '../../domain/callback.ts';
import type { Actor } from '../../domain/incident.ts';
import type { EndpointRef } from '../callbacks/callback-endpoints.ts';
import type { MonitorRef } from '../monitors/live.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { isDistributed } from '../postgres/engine.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { readShards } from '../postgres/shards.ts';
import { DELIVERY, type DeliveryRow } from './deliveries.ts';

export interface NewCancellation {
  /** Of the endpoint or the monitor. */
  projectId: string;
  /** All deliveries to the endpoint, which may belong to several projects; or all of the monitor. */
  endpointId?: string;
  monitorKey?: string;
  reason: CancellationReason;
  /** Absent for a decision of the service itself. */
  actor?: Actor;
  /** What is created later is not canceled. */
  untilMs: number;
}

export type Cancellation = NewCancellation & { cancellationId: number };

/** Why, and by whom. */
export type CancellationCause = Pick<NewCancellation, 'reason' | 'actor'>;

const NEW: Columns<NewCancellation> = {
  projectId: column.plain('project_id', 'uuid'),
  endpointId: column.line('endpoint_id'),
  monitorKey: column.plain('monitor_key', 'uuid'),
  reason: column.plain('reason', 'text'),
  actor: column.json('actor'),
  untilMs: column.moment('until_at'),
};
const CANCELLATION: Columns<Cancellation> = {
  ...NEW,
  cancellationId: column.plain('cancellation_id', 'bigint'),
};
const toCancellation = rowReader(CANCELLATION);

const INSERT = statement(
  'insert-cancellation',
  (bind: Bind<NewCancellation>) =>
    `insert into cancellations (${sql.names(NEW)}) values (${sql.parameters(NEW, bind, (row) => row)})`,
);

/**
 * Cancels what was pending at the endpoint at `untilMs`, soon. The caller has locked its row, and read the clock after it:
 * what was created while it waited for the lock is canceled too.
 */
export async function cancelDeliveriesTo(
  tx: Queryable,
  { projectId, endpointId }: EndpointRef,
  cause: CancellationCause,
  untilMs: number,
): Promise<void> {
  await tx.query(INSERT({ projectId, endpointId, ...cause, untilMs }));
}

/** Cancels what was pending of the monitor at `untilMs`, soon. The caller has locked its live row, then read the clock. */
export async function cancelDeliveriesOf(
  tx: Queryable,
  { projectId, monitorKey }: MonitorRef,
  cause: CancellationCause,
  untilMs: number,
): Promise<void> {
  await tx.query(INSERT({ projectId, monitorKey, ...cause, untilMs }));
}

/**
 * The cancellation whose turn it is. They take turns, so that a large one, or one that fails, holds up no other. Two
 * sweepers may have the same one: each cancels other deliveries.
 */
export async function takeCancellation(db: Queryable): Promise<Cancellation | undefined> {
  const { rows } = await db.query({
    name: 'take-cancellation',
    text: `update cancellations c set turn_at = clock_timestamp()
      where cancellation_id = (
        select cancellation_id from cancellations order by turn_at limit 1 for update skip locked)
      returning ${sql.select(CANCELLATION, 'c')}`,
  });
  return rows.map(toCancellation)[0];
}

export type CanceledDelivery = Pick<
  DeliveryRow,
  'projectId' | 'deliveryId' | 'endpointId' | 'incidentId' | 'event'
>;

const CANCELED: Columns<CanceledDelivery> = {
  projectId: DELIVERY.projectId,
  deliveryId: DELIVERY.deliveryId,
  endpointId: DELIVERY.endpointId,
  incidentId: DELIVERY.incidentId,
  event: DELIVERY.event,
};
const toCanceledDelivery = rowReader(CANCELED);

/** Of $1 to $3 (index deliveries_endpoint_pending or deliveries_monitor_pending). */
function pendingAt({ endpointId, monitorKey, projectId, untilMs }: Cancellation) {
  const [where, key] =
    endpointId === undefined
      ? ['project_id = $1 and monitor_key = $2', monitorKey]
      : ['endpoint_project_id = $1 and endpoint_id = $2', endpointId];
  return {
    where: `${where} and state in ('pending', 'failing') and created_at <= ${fromMillis('$3')}`,
    values: [projectId, key, untilMs],
  };
}

/**
 * Cancels at most `limit` pending and failing deliveries. An attempt under way may still arrive; its dispatcher finds the
 * row canceled. Leaves out rows that others have locked, so it waits for nothing.
 */
export async function cancelSome(
  tx: Queryable,
  cancellation: Cancellation,
  { limit, nowMs }: { limit: number; nowMs: number },
): Promise<CanceledDelivery[]> {
  if (isDistributed()) return await cancelByShards(tx, cancellation, { limit, nowMs });
  const { where, values } = pendingAt(cancellation);
  const { rows } = await tx.query(
    `with due as materialized (
       select project_id, delivery_id from deliveries where ${where} limit $4 for update skip locked)
     update deliveries d set state = 'canceled', ended_at = ${fromMillis('$5')}, next_attempt_at = null,
       lease_until = null, lease_owner = null
     from due
     where d.project_id = due.project_id and d.delivery_id = due.delivery_id
     returning ${sql.select(CANCELED, 'd')}`,
    [...values, limit, nowMs],
  );
  return rows.map(toCanceledDelivery);
}

const CANCEL_IN_SHARD = `update deliveries d set state = 'canceled', ended_at = ${fromMillis('$3')}, next_attempt_at = null,
    lease_until = null, lease_owner = null
  from unnest($1::uuid[], $2::text[]) as v (project_id, delivery_id)
  where d.project_id = v.project_id and d.delivery_id = v.delivery_id and d.project_id = any($1::uuid[])`;

/** As `cancelSome`, on Citus: shard by shard, in one transaction over the machines. */
async function cancelByShards(
  tx: Queryable,
  cancellation: Cancellation,
  { limit, nowMs }: { limit: number; nowMs: number },
): Promise<CanceledDelivery[]> {
  const shards = await readShards(tx, await findProjects(tx, cancellation));
  const canceled: CanceledDelivery[] = [];
  for (const projects of Map.groupBy(shards.keys(), (projectId) => shards.get(projectId)).values()) {
    const { where, values } = pendingAt(cancellation);
    const { rows } = await tx.query(
      `select ${sql.select(CANCELED, 'd')} from deliveries d
       where ${where} and project_id = any($4::uuid[]) limit $5 for update skip locked`,
      [...values, projects, limit - canceled.length],
    );
    const locked = rows.map(toCanceledDelivery);
    if (locked.length === 0) continue;
    const keys = [locked.map((row) => row.projectId), locked.map((row) => row.deliveryId)];
    await tx.query(CANCEL_IN_SHARD, [...keys, nowMs]);
    canceled.push(...locked);
    if (canceled.length >= limit) break;
  }
  return canceled;
}

/** The projects in which something is pending of it. Only an endpoint may have deliveries of several. */
async function findProjects(db: Queryable, cancellation: Cancellation): Promise<string[]> {
  const { where, values } = pendingAt(cancellation);
  const { rows } = await db.query<{ project_id: string }>(
    `select distinct project_id from deliveries where ${where} order by project_id`,
    values,
  );
  return rows.map((row) => row.project_id);
}

/** Deletes the cancellation if nothing is left of it. */
export async function deleteIfDone(tx: Queryable, cancellation: Cancellation): Promise<boolean> {
  // On Citus the two tables are on different machines.
  if (isDistributed()) {
    const { where, values } = pendingAt(cancellation);
    const { rowCount } = await tx.query(`select project_id from deliveries where ${where} limit 1`, values);
    if (rowCount !== 0) return false;
    await tx.query('delete from cancellations where cancellation_id = $1', [cancellation.cancellationId]);
    return true;
  }
  const { where, values } = pendingAt(cancellation);
  const { rowCount } = await tx.query(
    `delete from cancellations where cancellation_id = $4 and not exists (select from deliveries where ${where})`,
    [...values, cancellation.cancellationId],
  );
  return rowCount === 1;
}
