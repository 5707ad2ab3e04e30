// Cancels the pending deliveries of an endpoint or a monitor, and records that in the timelines of their incidents, in
// the caller's transaction. An attempt that is running is not recalled.
import type { Actor } from '../../domain/incident.ts';
import { type CancellationScope, cancelDeliveries } from '../../store/deliveries/deliveries.ts';
import { insertTimelineEntries, type TimelineRow } from '../../store/incidents/incidents.ts';
import type { Queryable } from '../../store/postgres/pool.ts';

export interface Cancellation {
  scope: CancellationScope;
  /** Shown as `detail.reason` of the timeline entry. */
  reason: 'endpoint_disabled' | 'endpoint_removed' | 'monitor_deleted';
  /** Absent for a decision of the service itself. */
  actor?: Actor;
}

/** Returns how many deliveries it canceled. Lock the endpoint or the monitor's live row before. */
export async function cancelPendingDeliveries(
  tx: Queryable,
  { scope, reason, actor }: Cancellation,
  nowMs: number,
): Promise<number> {
  const canceled = await cancelDeliveries(tx, scope, nowMs);
  const entries: TimelineRow[] = [];
  for (const { projectId, incidentId, deliveryId, endpointId, event } of canceled) {
    if (incidentId === undefined) continue;
    entries.push({
      projectId,
      incidentId,
      entry: {
        type: 'delivery',
        atMs: nowMs,
        actor,
        delivery: { deliveryId, endpointId, event, state: 'canceled' },
        detail: { reason },
      },
    });
  }
  await insertTimelineEntries(tx, entries);
  return canceled.length;
}
