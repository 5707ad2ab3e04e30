// The outbox: deliveries written in the transaction that changes an incident. Sending is the sweeper's.
import type { Queryable } from './pool.ts';

export interface OutboxRow {
  projectId: string;
  deliveryId: string;
  endpointId: string;
  /** The organization's default endpoint may be of another project. */
  endpointProjectId: string;
  incidentId?: string;
  monitorKey?: string;
  monitorId?: string;
  event: string;
  /** From 1 without gaps in each incident. */
  sequence?: number;
  /** The same on every attempt and redelivery of the message. */
  webhookId: string;
  /** The exact bytes that are signed and sent. */
  body: string;
  redeliveryOf?: string;
}

/** Inserts deliveries that are due at once. */
export async function insertDeliveries(
  tx: Queryable,
  rows: readonly OutboxRow[],
  nowMs: number,
): Promise<void> {
  if (rows.length === 0) return;
  await tx.query({
    name: 'insert-deliveries',
    text: `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, incident_id,
        monitor_key, monitor_id, event, sequence, webhook_id, body, redelivery_of, next_attempt_at, created_at)
      select v.*, to_timestamp($13 / 1000.0), to_timestamp($13 / 1000.0)
      from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::uuid[], $7::text[], $8::text[],
        $9::integer[], $10::text[], $11::text[], $12::text[]) as v`,
    values: [
      rows.map((row) => row.projectId),
      rows.map((row) => row.deliveryId),
      rows.map((row) => row.endpointId),
      rows.map((row) => row.endpointProjectId),
      rows.map((row) => row.incidentId),
      rows.map((row) => row.monitorKey),
      rows.map((row) => row.monitorId),
      rows.map((row) => row.event),
      rows.map((row) => row.sequence),
      rows.map((row) => row.webhookId),
      rows.map((row) => row.body),
      rows.map((row) => row.redeliveryOf),
      nowMs,
    ],
  });
}
