// Deliveries: the outbox, which is written in the transaction that changes an incident, and the list that people see.
// delivery-queue.ts and delivery-results.ts have the dispatcher's claims and results, cancellations.ts has what ends
// deliveries without an attempt. Lock order: after the endpoint's row, in key order (project_id, delivery_id).
import type { DeliveryEvent, DeliveryState } from '../../domain/callback.ts';
import type { Jurisdiction } from '../../domain/monitor.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { type Condition, type KeysetPage, keysetList, type Positioned } from '../postgres/keyset.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

interface DeliverySubject {
  projectId: string;
  deliveryId: string;
  endpointId: string;
  /** The organization's default endpoint may belong to another project. */
  endpointProjectId: string;
  incidentId?: string;
  monitorKey?: string;
  monitorId?: string;
  event: DeliveryEvent;
  /** From 1 without gaps in each incident. */
  sequence?: number;
  redeliveryOf?: string;
}

/** A delivery to send. */
export interface OutboxRow extends DeliverySubject {
  /**
   * The database's clock, not before the endpoint was read: what was there when an endpoint is disabled is canceled
   * (delivery-queue.ts). The id is made from it.
   */
  createdMs: number;
  /** The same on every attempt and redelivery of the message. */
  webhookId: string;
  /** The exact bytes that are signed and sent. */
  body: string;
}

/** A delivery without its message. */
export interface DeliveryRow extends DeliverySubject {
  state: DeliveryState;
  attemptCount: number;
  createdMs: number;
  nextAttemptMs?: number;
  deliveredMs?: number;
}

const SUBJECT: Columns<DeliverySubject> = {
  projectId: column.plain('project_id', 'uuid'),
  deliveryId: column.plain('delivery_id', 'text'),
  endpointId: column.line('endpoint_id'),
  endpointProjectId: column.plain('endpoint_project_id', 'uuid'),
  incidentId: column.plain('incident_id', 'text'),
  monitorKey: column.plain('monitor_key', 'uuid'),
  monitorId: column.line('monitor_id'),
  event: column.plain('event', 'text'),
  sequence: column.plain('sequence', 'integer'),
  redeliveryOf: column.plain('redelivery_of', 'text'),
};

/** The columns that an insert writes. */
export const OUTBOX: Columns<OutboxRow> = {
  ...SUBJECT,
  createdMs: column.moment('created_at'),
  webhookId: column.plain('webhook_id', 'text'),
  body: column.line('body'),
};

const LISTED: Columns<DeliveryRow> = {
  ...SUBJECT,
  state: column.plain('state', 'text'),
  attemptCount: column.plain('attempt_count', 'smallint'),
  createdMs: OUTBOX.createdMs,
  nextAttemptMs: column.moment('next_attempt_at'),
  deliveredMs: column.moment('delivered_at'),
};

/** Of `deliveries d`. */
export const DELIVERY = { ...OUTBOX, ...LISTED };

const INSERT = statement('insert-deliveries', (bind: Bind<{ rows: readonly OutboxRow[]; dueMs: number }>) => {
  const due = fromMillis(bind(({ dueMs }) => dueMs));
  return `insert into deliveries (${sql.names(OUTBOX)}, next_attempt_at)
      select ${sql.values(OUTBOX)}, ${due} from ${sql.unnest(OUTBOX, bind, ({ rows }) => rows)}`;
});

/** Inserts deliveries that are due at `dueMs`. */
export async function insertDeliveries(
  tx: Queryable,
  rows: readonly OutboxRow[],
  dueMs: number,
): Promise<void> {
  if (rows.length > 0) await tx.query(INSERT({ rows, dueMs }));
}

const COLUMNS = sql.select(LISTED, 'd');
const toDeliveryRow = rowReader(LISTED);
const list = keysetList(LISTED, { from: 'deliveries d', alias: 'd', id: 'delivery_id' });

export interface DeliveryFilter {
  state?: DeliveryState;
  endpointId?: string;
  incidentId?: string;
  /** Of the monitor. */
  jurisdiction?: Jurisdiction;
}

/** A delivery has no jurisdiction of its own. Retention keeps an incident at least as long. */
const OF_JURISDICTION = `exists (select from incidents i where i.project_id = d.project_id
  and i.incident_id = d.incident_id and i.jurisdiction = $)`;

/** Newest first: ids are made from `createdMs`. */
export async function listDeliveries(
  db: Queryable,
  projectId: string,
  filter: DeliveryFilter,
  page: KeysetPage,
): Promise<Positioned<DeliveryRow>[]> {
  const conditions: Condition[] = [
    ['d.project_id = $', projectId],
    ['d.state = $', filter.state],
    ['d.endpoint_id = $', filter.endpointId],
    ['d.incident_id = $', filter.incidentId],
    [OF_JURISDICTION, filter.jurisdiction],
  ];
  return await list(db, conditions, page);
}

export async function findDelivery(
  db: Queryable,
  projectId: string,
  deliveryId: string,
): Promise<DeliveryRow | undefined> {
  const { rows } = await db.query({
    name: 'find-delivery',
    text: `select ${COLUMNS} from deliveries d where d.project_id = $1 and d.delivery_id = $2`,
    values: [projectId, deliveryId],
  });
  return rows.map(toDeliveryRow)[0];
}

const MESSAGE = { webhookId: OUTBOX.webhookId, body: OUTBOX.body };
const toMessage = rowReader<Pick<OutboxRow, 'webhookId' | 'body'>>(MESSAGE);

/** The message of a delivery, which a redelivery sends again. */
export async function findMessage(
  db: Queryable,
  projectId: string,
  deliveryId: string,
): Promise<Pick<OutboxRow, 'webhookId' | 'body'> | undefined> {
  const { rows } = await db.query(
    `select ${sql.select(MESSAGE, 'd')} from deliveries d where d.project_id = $1 and d.delivery_id = $2`,
    [projectId, deliveryId],
  );
  return rows.map(toMessage)[0];
}

export interface AttemptRow {
  /** From 1. */
  attempt: number;
  atMs: number;
  statusCode?: number;
  latencyMs?: number;
  error?: string;
}

export const ATTEMPT: Columns<AttemptRow> = {
  attempt: column.plain('attempt', 'smallint'),
  atMs: column.moment('at'),
  statusCode: column.plain('status_code', 'smallint'),
  latencyMs: column.plain('latency_ms', 'integer'),
  error: column.quoted('error', 'text'),
};
const toAttemptRow = rowReader(ATTEMPT);

/** The first attempt, which is in the delivery's row: the columns of `ATTEMPT`. */
const FIRST_ATTEMPT = `select 1::smallint as attempt, first_at as at, first_status_code as status_code,
  first_latency_ms as latency_ms, first_error as error
  from deliveries where project_id = $1 and delivery_id = $2 and first_at is not null`;

/** Every attempt, oldest first. The retry schedule limits their number. */
export async function listAttempts(
  db: Queryable,
  projectId: string,
  deliveryId: string,
): Promise<AttemptRow[]> {
  const { rows } = await db.query({
    name: 'list-attempts',
    text: `select ${sql.select(ATTEMPT, 'a')} from (
        ${FIRST_ATTEMPT}
        union all
        select ${sql.names(ATTEMPT)} from delivery_attempts where project_id = $1 and delivery_id = $2) a
      order by a.attempt`,
    values: [projectId, deliveryId],
  });
  return rows.map(toAttemptRow);
}
