// Deliveries as people see them, and sending one again (docs/contract/callbacks.md). The sending itself is the sweeper's.
import { newId } from '../../domain/id.ts';
import { notFound, ProblemError } from '../../domain/problem.ts';
import { lockEndpoint } from '../../store/callbacks/callback-endpoints.ts';
import {
  type DeliveryFilter,
  type DeliveryRow,
  findDelivery,
  findMessage,
  listAttempts,
  listDeliveries as listDeliveryRows,
} from '../../store/deliveries/deliveries.ts';
import { insertDeliveries } from '../../store/deliveries/outbox.ts';
import { insertTimelineEntries } from '../../store/incidents/incidents.ts';
import type { KeysetPage, Positioned } from '../../store/postgres/keyset.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller } from '../calls/context.ts';
import { optionalTime, toTime } from '../calls/time.ts';

/** The record of docs/contract/callbacks.md. */
function describeDelivery(row: DeliveryRow) {
  return {
    deliveryId: row.deliveryId,
    endpointId: row.endpointId,
    incidentId: row.incidentId,
    monitorId: row.monitorId,
    event: row.event,
    state: row.state,
    sequence: row.sequence,
    attemptCount: row.attemptCount,
    createdAt: toTime(row.createdMs),
    nextAttemptAt: optionalTime(row.nextAttemptMs),
    deliveredAt: optionalTime(row.deliveredMs),
    redeliveryOf: row.redeliveryOf,
  };
}

export type DeliveryRecord = ReturnType<typeof describeDelivery>;

/** Newest first. */
export async function listDeliveries(
  db: Queryable,
  projectId: string,
  filter: DeliveryFilter,
  page: KeysetPage,
): Promise<Positioned<DeliveryRecord>[]> {
  const rows = await listDeliveryRows(db, projectId, filter, page);
  return rows.map(({ item, position }) => ({ item: describeDelivery(item), position }));
}

/** One delivery with every attempt, or `not_found`. */
export async function getDelivery(db: Queryable, projectId: string, deliveryId: string) {
  const row = await findDelivery(db, projectId, deliveryId);
  if (!row) throw notFound();
  const attempts = await listAttempts(db, projectId, deliveryId);
  return {
    ...describeDelivery(row),
    attempts: attempts.map(({ atMs, statusCode, latencyMs, error }) => ({
      at: toTime(atMs),
      statusCode,
      latencyMs,
      error,
    })),
  };
}

/**
 * Puts the message of a delivery into the outbox again: the same `webhook-id` and body, to the endpoint where it went,
 * under a new `deliveryId`. Throws `conflict` when that endpoint is removed or disabled.
 */
export async function redeliver(
  tx: Queryable,
  { caller, deliveryId }: { caller: Caller; deliveryId: string },
  nowMs: number,
): Promise<DeliveryRecord> {
  const { projectId } = caller;
  const original = await findDelivery(tx, projectId, deliveryId);
  const message = await findMessage(tx, projectId, deliveryId);
  if (!original || !message) throw notFound();
  await requireOpenEndpoint(tx, original);
  const newDeliveryId = newId('dlv');
  const { endpointId, endpointProjectId, incidentId, monitorKey, monitorId, event, sequence } = original;
  const copy = {
    projectId,
    endpointId,
    endpointProjectId,
    incidentId,
    monitorKey,
    monitorId,
    event,
    sequence,
  };
  await insertDeliveries(
    tx,
    [{ ...copy, ...message, deliveryId: newDeliveryId, redeliveryOf: deliveryId }],
    nowMs,
  );
  if (incidentId !== undefined) {
    const delivery = { deliveryId: newDeliveryId, endpointId, event, state: 'pending' };
    const entry = { type: 'delivery', atMs: nowMs, actor: caller.actor, delivery } as const;
    const detail = { redeliveryOf: deliveryId };
    await insertTimelineEntries(tx, [{ projectId, incidentId, entry: { ...entry, detail } }]);
  }
  const inserted = await findDelivery(tx, projectId, newDeliveryId);
  if (!inserted) throw new Error('The delivery was inserted and is not there.');
  return describeDelivery(inserted);
}

/** Locked, so that the endpoint is not disabled at the same moment: that would cancel all but this delivery. */
async function requireOpenEndpoint(tx: Queryable, delivery: DeliveryRow): Promise<void> {
  const { endpointProjectId, endpointId } = delivery;
  const endpoint = await lockEndpoint(tx, { projectId: endpointProjectId, endpointId });
  if (endpoint?.lifecycle === 'active') return;
  throw new ProblemError('conflict', {
    detail: endpoint
      ? `The callback endpoint ${endpointId} is disabled: activate it, then redeliver.`
      : `The callback endpoint ${endpointId} is removed: nothing can be sent to it any more.`,
  });
}
