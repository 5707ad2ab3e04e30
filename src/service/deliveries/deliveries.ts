// Deliveries as people manage them: read, and sent again (docs/contract/callbacks.md). The sweeper sends.
import { newId } from '../../domain/id.ts';
import { notFound, ProblemError } from '../../domain/problem.ts';
import { lockEndpoint } from '../../store/callbacks/callback-endpoints.ts';
import {
  type DeliveryRow,
  findDelivery,
  findMessage,
  insertDeliveries,
} from '../../store/deliveries/deliveries.ts';
import { insertTimelineEntries } from '../../store/incidents/incidents.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { readNow } from '../../store/postgres/transaction.ts';
import type { Caller } from '../calls/context.ts';

/** A delivery of the project, or `not_found`. */
export async function requireDelivery(
  db: Queryable,
  projectId: string,
  deliveryId: string,
): Promise<DeliveryRow> {
  const row = await findDelivery(db, projectId, deliveryId);
  if (!row) throw notFound();
  return row;
}

/**
 * Puts the message of a delivery into the outbox again, under a new `deliveryId`: the same `webhook-id`, body and
 * endpoint. Throws `conflict` when the endpoint is removed or disabled.
 */
export async function redeliver(
  tx: Queryable,
  { caller, deliveryId }: { caller: Caller; deliveryId: string },
  nowMs: number,
): Promise<DeliveryRow> {
  const { projectId } = caller;
  const original = await requireDelivery(tx, projectId, deliveryId);
  const message = await findMessage(tx, projectId, deliveryId);
  if (!message) throw notFound();
  await requireOpenEndpoint(tx, original);
  const createdMs = await readNow(tx);
  const newDeliveryId = newId('dlv', createdMs);
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
  const row = { ...copy, ...message, deliveryId: newDeliveryId, createdMs, redeliveryOf: deliveryId };
  await insertDeliveries(tx, [row], createdMs);
  if (incidentId !== undefined) {
    const delivery = { deliveryId: newDeliveryId, endpointId, event, state: 'pending' };
    const entry = { type: 'delivery', atMs: nowMs, actor: caller.actor, delivery } as const;
    const detail = { redeliveryOf: deliveryId };
    await insertTimelineEntries(tx, [{ projectId, incidentId, entry: { ...entry, detail } }]);
  }
  return await requireDelivery(tx, projectId, newDeliveryId);
}

/** Locks the endpoint: disabling it at the same moment would cancel all deliveries but the new one. */
async function requireOpenEndpoint(tx: Queryable, delivery: DeliveryRow): Promise<void> {
  const { endpointProjectId, endpointId } = delivery;
  const endpoint = await lockEndpoint(tx, { projectId: endpointProjectId, endpointId });
  if (endpoint?.lifecycle === 'active') return;
  throw new ProblemError('conflict', {
    detail: endpoint
      ? `The callback endpoint ${endpointId} is disabled: activate it, then redeliver.`
      : `The callback endpoint ${endpointId} is removed: nothing can be sent to it.`,
  });
}
