// The outbox: deliveries written in the transaction that changes an incident. Sending is the sweeper's.
import type { DeliveryEvent } from '../../domain/callback.ts';
import { plainArray, textList, textListSql } from '../postgres/plain-array.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface OutboxRow {
  projectId: string;
  deliveryId: string;
  endpointId: string;
  /** The organization's default endpoint may be of another project. */
  endpointProjectId: string;
  incidentId?: string;
  monitorKey?: string;
  monitorId?: string;
  event: DeliveryEvent;
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
      from unnest($1::uuid[], $2::text[], ${textListSql('$3')}, $4::uuid[], $5::text[], $6::uuid[], ${textListSql('$7')}, $8::text[],
        $9::integer[], $10::text[], ${textListSql('$11')}, $12::text[]) as v`,
    values: [
      plainArray(rows.map((row) => row.projectId)),
      plainArray(rows.map((row) => row.deliveryId)),
      textList(rows.map((row) => row.endpointId)),
      plainArray(rows.map((row) => row.endpointProjectId)),
      plainArray(rows.map((row) => row.incidentId)),
      plainArray(rows.map((row) => row.monitorKey)),
      textList(rows.map((row) => row.monitorId)),
      plainArray(rows.map((row) => row.event)),
      plainArray(rows.map((row) => row.sequence)),
      plainArray(rows.map((row) => row.webhookId)),
      // JSON has no raw control characters.
      textList(rows.map((row) => row.body)),
      plainArray(rows.map((row) => row.redeliveryOf)),
      nowMs,
    ],
  });
}
