// Rows of test deliveries, which the api itself sends. It inserts the row first: after a crash the dispatcher takes the
// delivery over.
import type { DeliveryState } from '../../domain/callback.ts';
import { firstIdAt } from '../../domain/id.ts';
import type { EndpointRef } from '../callbacks/callback-endpoints.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface TestDelivery extends EndpointRef {
  deliveryId: string;
  webhookId: string;
  body: string;
  createdMs: number;
  /** When the dispatcher takes it over: after the latest possible end of the api's attempt. */
  takeoverMs: number;
}

/** The caller has locked the endpoint's row, and then found no delivery with the `webhookId`: it is unique. */
export async function insertTestDelivery(tx: Queryable, delivery: TestDelivery): Promise<void> {
  await tx.query(
    `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, event, webhook_id, body,
       created_at, next_attempt_at)
     values ($1, $2, $3, $1, 'callback.test', $4, $5, ${fromMillis('$6')}, ${fromMillis('$7')})`,
    [
      delivery.projectId,
      delivery.deliveryId,
      delivery.endpointId,
      delivery.webhookId,
      delivery.body,
      delivery.createdMs,
      delivery.takeoverMs,
    ],
  );
}

/** The id of the test delivery with one of these `webhookIds` that was made after `sinceMs` (index deliveries_test). */
export async function findTestDelivery(
  db: Queryable,
  { projectId, webhookIds, sinceMs }: { projectId: string; webhookIds: readonly string[]; sinceMs: number },
): Promise<string | undefined> {
  const { rows } = await db.query<{ delivery_id: string }>(
    `select delivery_id from deliveries
     where project_id = $1 and webhook_id = any($2) and event = 'callback.test' and redelivery_of is null
       and created_at > ${fromMillis('$3')}`,
    [projectId, webhookIds, sinceMs],
  );
  return rows[0]?.delivery_id;
}

/**
 * Whether another test delivery is on its way to the endpoint: its api may still send it, or the dispatcher that took it
 * over when it was due. One whose api died is not, from its `takeoverMs` on; nor is a redelivery, which waits as other
 * deliveries do. The caller has locked the endpoint's row.
 */
export async function isTestUnderWay(tx: Queryable, delivery: TestDelivery): Promise<boolean> {
  const { createdMs, takeoverMs } = delivery;
  const { rowCount } = await tx.query(
    `select from deliveries
     where project_id = $1 and endpoint_id = $2 and event = 'callback.test' and redelivery_of is null
       and state in ('pending', 'failing') and delivery_id <> $3 and delivery_id >= $4
       and (created_at > ${fromMillis('$5')} or lease_until > clock_timestamp())
     limit 1`,
    [
      delivery.projectId,
      delivery.endpointId,
      delivery.deliveryId,
      // Bounds what is read (index deliveries_endpoint): a dispatcher that runs takes it over at once.
      firstIdAt('dlv', createdMs - 2 * (takeoverMs - createdMs)),
      createdMs - (takeoverMs - createdMs),
    ],
  );
  return rowCount === 1;
}

export interface TestAttempt {
  projectId: string;
  deliveryId: string;
  delivered: boolean;
  atMs: number;
  endedMs: number;
  statusCode?: number;
  latencyMs?: number;
  error?: string;
}

/**
 * Records the only attempt of a test delivery, and its end. A delivery that was canceled meanwhile stays canceled; its
 * attempt is recorded. A delivery that a dispatcher has taken over belongs to that dispatcher: nothing is written.
 */
export async function finishTestDelivery(tx: Queryable, attempt: TestAttempt): Promise<void> {
  const state: DeliveryState = attempt.delivered ? 'delivered' : 'exhausted';
  await tx.query(
    `update deliveries set attempt_count = 1, next_attempt_at = null,
       state = case when state = 'canceled' then state else $3 end,
       ended_at = coalesce(ended_at, ${fromMillis('$4')}),
       delivered_at = case when $3 = 'delivered' and state <> 'canceled' then ${fromMillis('$4')} end,
       first_at = ${fromMillis('$5')}, first_status_code = $6, first_latency_ms = $7, first_error = $8
     where project_id = $1 and delivery_id = $2 and attempt_count = 0 and lease_owner is null`,
    [
      attempt.projectId,
      attempt.deliveryId,
      state,
      attempt.endedMs,
      attempt.atMs,
      attempt.statusCode,
      attempt.latencyMs,
      attempt.error,
    ],
  );
}
