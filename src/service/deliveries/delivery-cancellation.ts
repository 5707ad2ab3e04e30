// Carries out a cancellation (store/deliveries/cancellations.ts) in bounded steps, and records it in the timelines of the
// incidents. An attempt that is running is not recalled.
import {
  type CanceledDelivery,
  type Cancellation,
  cancelSome,
  deleteIfDone,
} from '../../store/deliveries/cancellations.ts';
import { insertTimelineEntries, type TimelineRow } from '../../store/incidents/incidents.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { readNow } from '../../store/postgres/transaction.ts';

/** Cancels at most `limit` deliveries. `isDone`: none is left. */
export async function carryOutCancellation(
  tx: Queryable,
  cancellation: Cancellation,
  limit: number,
): Promise<{ count: number; isDone: boolean }> {
  const nowMs = await readNow(tx);
  const canceled = await cancelSome(tx, cancellation, { limit, nowMs });
  await insertTimelineEntries(
    tx,
    canceled.flatMap((delivery) => entryOf(delivery, cancellation, nowMs) ?? []),
  );
  return { count: canceled.length, isDone: await deleteIfDone(tx, cancellation) };
}

function entryOf(
  { projectId, incidentId, deliveryId, endpointId, event }: CanceledDelivery,
  { reason, actor }: Cancellation,
  atMs: number,
): TimelineRow | undefined {
  if (incidentId === undefined) return undefined;
  const delivery = { deliveryId, endpointId, event, state: 'canceled' };
  return { projectId, incidentId, entry: { type: 'delivery', atMs, actor, delivery, detail: { reason } } };
}
