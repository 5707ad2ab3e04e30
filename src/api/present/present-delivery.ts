// Deliveries of alerts as the API shows them (docs/contract/callbacks.md).
import type { Delivery } from '../../contract/resources/delivery.ts';
import { optionalTime, toTime } from '../../domain/timestamp.ts';
import type { AttemptRow, DeliveryRow } from '../../store/deliveries/deliveries.ts';

export function presentDelivery(row: DeliveryRow): Delivery {
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

export function presentAttempt({ atMs, statusCode, latencyMs, error }: AttemptRow) {
  return { at: toTime(atMs), statusCode, latencyMs, error };
}
