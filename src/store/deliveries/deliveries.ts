// Deliveries as people see them, and their cancellation. Claiming and sending them is the dispatcher's; new ones for
// incidents are written by outbox.ts. Lock order: after the endpoint's row, in key order (project_id, delivery_id).
import type { DeliveryEvent, DeliveryState } from '../../domain/callback.ts';
import type { EndpointRef } from '../callbacks/callback-endpoints.ts';
import type { MonitorRef } from '../monitors/live.ts';
import { fromMicros, type KeysetPage, micros, type Positioned } from '../postgres/keyset.ts';
import type { Queryable } from '../postgres/pool.ts';

/** A delivery without its body. Times are ms. */
export interface DeliveryRow {
  projectId: string;
  deliveryId: string;
  endpointId: string;
  endpointProjectId: string;
  incidentId?: string;
  monitorKey?: string;
  monitorId?: string;
  event: DeliveryEvent;
  sequence?: number;
  state: DeliveryState;
  attemptCount: number;
  createdMs: number;
  nextAttemptMs?: number;
  deliveredMs?: number;
  redeliveryOf?: string;
}

interface DeliveryColumns {
  project_id: string;
  delivery_id: string;
  endpoint_id: string;
  endpoint_project_id: string;
  incident_id: string | null;
  monitor_key: string | null;
  monitor_id: string | null;
  event: DeliveryEvent;
  sequence: number | null;
  state: DeliveryState;
  attempt_count: number;
  created_us: number;
  next_attempt_ms: number | null;
  delivered_ms: number | null;
  redelivery_of: string | null;
}

const COLUMNS = `d.project_id, d.delivery_id, d.endpoint_id, d.endpoint_project_id, d.incident_id, d.monitor_key,
  d.monitor_id, d.event, d.sequence, d.state, d.attempt_count, d.redelivery_of,
  ${micros('d.created_at')} as created_us,
  (extract(epoch from d.next_attempt_at) * 1000)::bigint as next_attempt_ms,
  (extract(epoch from d.delivered_at) * 1000)::bigint as delivered_ms`;

function toDeliveryRow(row: DeliveryColumns): DeliveryRow {
  return {
    projectId: row.project_id,
    deliveryId: row.delivery_id,
    endpointId: row.endpoint_id,
    endpointProjectId: row.endpoint_project_id,
    incidentId: row.incident_id ?? undefined,
    monitorKey: row.monitor_key ?? undefined,
    monitorId: row.monitor_id ?? undefined,
    event: row.event,
    sequence: row.sequence ?? undefined,
    state: row.state,
    attemptCount: row.attempt_count,
    createdMs: Math.floor(row.created_us / 1000),
    nextAttemptMs: row.next_attempt_ms ?? undefined,
    deliveredMs: row.delivered_ms ?? undefined,
    redeliveryOf: row.redelivery_of ?? undefined,
  };
}

export interface DeliveryFilter {
  state?: DeliveryState;
  endpointId?: string;
  incidentId?: string;
}

/** Newest first. Not a named statement: each set of filters has its own plan and index. */
export async function listDeliveries(
  db: Queryable,
  projectId: string,
  filter: DeliveryFilter,
  page: KeysetPage,
): Promise<Positioned<DeliveryRow>[]> {
  const values: unknown[] = [projectId];
  const bind = (value: unknown) => `$${values.push(value)}`;
  const where = ['d.project_id = $1'];
  if (filter.state) where.push(`d.state = ${bind(filter.state)}`);
  if (filter.endpointId) where.push(`d.endpoint_id = ${bind(filter.endpointId)}`);
  if (filter.incidentId) where.push(`d.incident_id = ${bind(filter.incidentId)}`);
  if (page.after) {
    where.push(
      `(d.created_at, d.delivery_id) < (${fromMicros(bind(page.after.micros))}, ${bind(page.after.id)})`,
    );
  }
  const { rows } = await db.query<DeliveryColumns>(
    `select ${COLUMNS} from deliveries d where ${where.join(' and ')}
     order by d.created_at desc, d.delivery_id desc limit ${bind(page.limit)}`,
    values,
  );
  return rows.map((row) => ({
    item: toDeliveryRow(row),
    position: { micros: row.created_us, id: row.delivery_id },
  }));
}

export async function findDelivery(
  db: Queryable,
  projectId: string,
  deliveryId: string,
): Promise<DeliveryRow | undefined> {
  const { rows } = await db.query<DeliveryColumns>({
    name: 'find-delivery',
    text: `select ${COLUMNS} from deliveries d where d.project_id = $1 and d.delivery_id = $2`,
    values: [projectId, deliveryId],
  });
  return rows.map(toDeliveryRow)[0];
}

/** What a redelivery sends again: the same message. */
export async function findMessage(
  db: Queryable,
  projectId: string,
  deliveryId: string,
): Promise<{ webhookId: string; body: string } | undefined> {
  const { rows } = await db.query<{ webhook_id: string; body: string }>(
    'select webhook_id, body from deliveries where project_id = $1 and delivery_id = $2',
    [projectId, deliveryId],
  );
  return rows.map((row) => ({ webhookId: row.webhook_id, body: row.body }))[0];
}

export interface AttemptRow {
  attempt: number;
  atMs: number;
  statusCode?: number;
  latencyMs?: number;
  error?: string;
}

/** Every attempt, oldest first; at most as many as the retry schedule has. */
export async function listAttempts(
  db: Queryable,
  projectId: string,
  deliveryId: string,
): Promise<AttemptRow[]> {
  const { rows } = await db.query<{
    attempt: number;
    at_ms: number;
    status_code: number | null;
    latency_ms: number | null;
    error: string | null;
  }>({
    name: 'list-attempts',
    text: `select attempt, (extract(epoch from at) * 1000)::bigint as at_ms, status_code, latency_ms, error
      from delivery_attempts where project_id = $1 and delivery_id = $2 order by attempt`,
    values: [projectId, deliveryId],
  });
  return rows.map((row) => ({
    attempt: row.attempt,
    atMs: row.at_ms,
    statusCode: row.status_code ?? undefined,
    latencyMs: row.latency_ms ?? undefined,
    error: row.error ?? undefined,
  }));
}

export interface CanceledDelivery {
  projectId: string;
  deliveryId: string;
  endpointId: string;
  incidentId?: string;
  event: DeliveryEvent;
}

/** Whose pending deliveries end: an endpoint's (index deliveries_endpoint_pending) or a monitor's. */
export type CancellationScope = { endpoint: EndpointRef } | { monitor: MonitorRef };

/**
 * Cancels what is pending or failing. An attempt under way may still arrive; its dispatcher finds the row canceled.
 * An endpoint's deliveries may be of other projects: it may be the organization's default.
 */
export async function cancelDeliveries(
  tx: Queryable,
  scope: CancellationScope,
  nowMs: number,
): Promise<CanceledDelivery[]> {
  const [where, ...keys] =
    'endpoint' in scope
      ? ['endpoint_project_id = $2 and endpoint_id = $3', scope.endpoint.projectId, scope.endpoint.endpointId]
      : ['project_id = $2 and monitor_key = $3', scope.monitor.projectId, scope.monitor.monitorKey];
  const { rows } = await tx.query<{
    project_id: string;
    delivery_id: string;
    endpoint_id: string;
    incident_id: string | null;
    event: DeliveryEvent;
  }>(
    `with due as materialized (
       select project_id, delivery_id from deliveries
       where ${where} and state in ('pending', 'failing')
       order by project_id, delivery_id
       for update)
     update deliveries d set state = 'canceled', ended_at = to_timestamp($1 / 1000.0), next_attempt_at = null,
       lease_until = null, lease_owner = null
     from due
     where d.project_id = due.project_id and d.delivery_id = due.delivery_id
     returning d.project_id, d.delivery_id, d.endpoint_id, d.incident_id, d.event`,
    [nowMs, ...keys],
  );
  return rows.map((row) => ({
    projectId: row.project_id,
    deliveryId: row.delivery_id,
    endpointId: row.endpoint_id,
    incidentId: row.incident_id ?? undefined,
    event: row.event,
  }));
}
