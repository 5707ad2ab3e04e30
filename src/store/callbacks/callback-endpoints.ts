// Callback endpoints: rows, their lists, and where bindings lead. Writers lock the endpoint's row first, then its
// secrets and deliveries. A removed endpoint keeps its row, without address and secrets, so that bindings can say so.
import type { DeliveryState, EndpointKind, EndpointLifecycle } from '../../domain/callback.ts';
import { codeOf, SQLSTATE } from '../postgres/database-error.ts';
import { fromMicros, type KeysetPage, micros, type Positioned } from '../postgres/keyset.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface EndpointRef {
  projectId: string;
  endpointId: string;
}

/** Facts about the secret that signs, and about the one before it while both do. */
export interface SecretMetadata {
  version: number;
  issuedMs: number;
  previous?: { version: number; endsMs: number };
}

export interface LastDelivery {
  state: DeliveryState;
  /** RFC 3339. */
  at: string;
  statusCode?: number;
}

/** An endpoint that is not removed. Times are ms. */
export interface EndpointRow extends EndpointRef {
  /** Undefined for an inline binding's endpoint. */
  alias?: string;
  kind: EndpointKind;
  /** Sealed; a webhook has one. */
  urlBox?: Buffer;
  relay?: { actorId: string; notifierId: string; contractVersion: string };
  relayGroup?: { notifierId: string; contractVersion: string };
  lifecycle: EndpointLifecycle;
  disabledMs?: number;
  disabledReason?: string;
  generation: number;
  /** Set on an inline binding's endpoint: the one monitor that it serves. */
  monitorKey?: string;
  createdMs: number;
  updatedMs: number;
  isOrganizationDefault: boolean;
  secret?: SecretMetadata;
  lastDelivery?: LastDelivery;
}

interface EndpointColumns {
  project_id: string;
  endpoint_id: string;
  alias: string | null;
  kind: EndpointKind;
  url_box: Buffer | null;
  relay: EndpointRow['relay'] | null;
  relay_group: EndpointRow['relayGroup'] | null;
  lifecycle: EndpointLifecycle;
  disabled_ms: number | null;
  disabled_reason: string | null;
  generation: number;
  monitor_key: string | null;
  created_us: number;
  updated_ms: number;
  is_default: boolean;
  secret_version: number | null;
  secret_issued_ms: number | null;
  previous_version: number | null;
  previous_ends_ms: number | null;
  last_delivery: LastDelivery | null;
}

const ms = (column: string, name: string) => `(extract(epoch from ${column}) * 1000)::bigint as ${name}`;

const SELECT = `select e.project_id, e.endpoint_id, e.alias, e.kind, e.url_box, e.relay, e.relay_group, e.lifecycle,
    ${ms('e.disabled_at', 'disabled_ms')}, e.disabled_reason, e.generation, e.monitor_key,
    ${micros('e.created_at')} as created_us, ${ms('e.updated_at', 'updated_ms')}, e.last_delivery,
    (o.default_endpoint_id is not distinct from e.endpoint_id
      and o.default_project_id is not distinct from e.project_id) as is_default,
    s.version as secret_version, ${ms('s.issued_at', 'secret_issued_ms')},
    before.version as previous_version, ${ms('before.ends_at', 'previous_ends_ms')}
  from callback_endpoints e
  join projects p on p.project_id = e.project_id
  join organizations o on o.organization_id = p.organization_id
  left join signing_secrets s
    on s.project_id = e.project_id and s.endpoint_id = e.endpoint_id and s.ends_at is null
  left join signing_secrets before
    on before.project_id = e.project_id and before.endpoint_id = e.endpoint_id
      and before.version = s.version - 1 and before.ends_at > clock_timestamp()`;

function toEndpointRow(row: EndpointColumns): EndpointRow {
  return {
    projectId: row.project_id,
    endpointId: row.endpoint_id,
    alias: row.alias ?? undefined,
    kind: row.kind,
    urlBox: row.url_box ?? undefined,
    relay: row.relay ?? undefined,
    relayGroup: row.relay_group ?? undefined,
    lifecycle: row.lifecycle,
    disabledMs: row.disabled_ms ?? undefined,
    disabledReason: row.disabled_reason ?? undefined,
    generation: row.generation,
    monitorKey: row.monitor_key ?? undefined,
    createdMs: Math.floor(row.created_us / 1000),
    updatedMs: row.updated_ms,
    isOrganizationDefault: row.is_default,
    secret: toSecret(row),
    lastDelivery: row.last_delivery ?? undefined,
  };
}

function toSecret(row: EndpointColumns): SecretMetadata | undefined {
  if (row.secret_version === null || row.secret_issued_ms === null) return undefined;
  const previous =
    row.previous_version === null || row.previous_ends_ms === null
      ? undefined
      : { version: row.previous_version, endsMs: row.previous_ends_ms };
  return { version: row.secret_version, issuedMs: row.secret_issued_ms, previous };
}

/** Finds an endpoint that is not removed, inline ones included. */
export async function findEndpoint(db: Queryable, ref: EndpointRef): Promise<EndpointRow | undefined> {
  const { rows } = await db.query<EndpointColumns>({
    name: 'find-endpoint',
    text: `${SELECT} where e.project_id = $1 and e.endpoint_id = $2 and e.removed_at is null`,
    values: [ref.projectId, ref.endpointId],
  });
  return rows.map(toEndpointRow)[0];
}

/** The endpoints of a project, newest first, without inline ones (index callback_endpoints_list). */
export async function listEndpoints(
  db: Queryable,
  projectId: string,
  { limit, after }: KeysetPage,
): Promise<Positioned<EndpointRow>[]> {
  const before = after ? `and (e.created_at, e.endpoint_id) < (${fromMicros('$3')}, $4)` : '';
  const { rows } = await db.query<EndpointColumns>(
    `${SELECT} where e.project_id = $1 and e.removed_at is null and e.monitor_key is null ${before}
     order by e.created_at desc, e.endpoint_id desc limit $2`,
    after ? [projectId, limit, after.micros, after.id] : [projectId, limit],
  );
  return rows.map((row) => ({
    item: toEndpointRow(row),
    position: { micros: row.created_us, id: row.endpoint_id },
  }));
}

/** Finds an endpoint and locks its row until the transaction ends. */
export async function lockEndpoint(tx: Queryable, ref: EndpointRef): Promise<EndpointRow | undefined> {
  const { rowCount } = await tx.query(
    `select from callback_endpoints where project_id = $1 and endpoint_id = $2 and removed_at is null for update`,
    [ref.projectId, ref.endpointId],
  );
  // Read after the wait for the lock: a statement of its own sees what the holder before it has committed.
  return rowCount === 0 ? undefined : findEndpoint(tx, ref);
}

/** What an update may change. */
export type EndpointState = Pick<
  EndpointRow,
  'alias' | 'urlBox' | 'lifecycle' | 'disabledMs' | 'disabledReason' | 'generation' | 'updatedMs'
>;

export interface NewEndpoint extends EndpointRef {
  alias?: string;
  kind: EndpointKind;
  urlBox?: Buffer;
  monitorKey?: string;
  createdMs: number;
}

export type InsertResult = 'inserted' | 'id_taken' | 'alias_taken';

/** Inserts an active endpoint of generation 1. An id is taken for ever, an alias until its endpoint is removed. */
export async function insertEndpoint(tx: Queryable, endpoint: NewEndpoint): Promise<InsertResult> {
  const { rowCount } = await tx.query(
    `insert into callback_endpoints
       (project_id, endpoint_id, alias, kind, url_box, monitor_key, created_at, updated_at)
     values ($1, $2, $3, $4, $5, $6, to_timestamp($7 / 1000.0), to_timestamp($7 / 1000.0))
     on conflict do nothing`,
    [
      endpoint.projectId,
      endpoint.endpointId,
      endpoint.alias,
      endpoint.kind,
      endpoint.urlBox,
      endpoint.monitorKey,
      endpoint.createdMs,
    ],
  );
  if (rowCount === 1) return 'inserted';
  const { rows } = await tx.query(
    'select from callback_endpoints where project_id = $1 and endpoint_id = $2',
    [endpoint.projectId, endpoint.endpointId],
  );
  return rows.length > 0 ? 'id_taken' : 'alias_taken';
}

/**
 * Writes the changeable part of an endpoint. The row is locked by the caller.
 * Answers `alias_taken` when another endpoint has the alias; the transaction is of no use after that.
 */
export async function updateEndpoint(
  tx: Queryable,
  ref: EndpointRef,
  state: EndpointState,
): Promise<'updated' | 'alias_taken'> {
  try {
    await writeEndpoint(tx, ref, state);
    return 'updated';
  } catch (error) {
    if (codeOf(error) === SQLSTATE.uniqueViolation) return 'alias_taken';
    throw error;
  }
}

async function writeEndpoint(tx: Queryable, ref: EndpointRef, state: EndpointState): Promise<void> {
  await tx.query(
    `update callback_endpoints set alias = $3, url_box = $4, lifecycle = $5,
       disabled_at = to_timestamp($6 / 1000.0), disabled_reason = $7, generation = $8,
       updated_at = to_timestamp($9 / 1000.0)
     where project_id = $1 and endpoint_id = $2`,
    [
      ref.projectId,
      ref.endpointId,
      state.alias,
      state.urlBox,
      state.lifecycle,
      state.disabledMs,
      state.disabledReason,
      state.generation,
      state.updatedMs,
    ],
  );
}

/** Leaves a row that says only that the endpoint was there: its address is erased. */
export async function removeEndpoint(tx: Queryable, ref: EndpointRef, nowMs: number): Promise<void> {
  await tx.query(
    `update callback_endpoints set removed_at = to_timestamp($3 / 1000.0), updated_at = to_timestamp($3 / 1000.0),
       url_box = null, relay = null, relay_group = null, last_delivery = null, generation = generation + 1
     where project_id = $1 and endpoint_id = $2`,
    [ref.projectId, ref.endpointId, nowMs],
  );
}

/**
 * What became of the newest delivery to an endpoint. An older one never replaces a newer one.
 * Call it before or apart from a transaction that locks deliveries: an endpoint's row comes first in the lock order.
 */
export async function updateLastDelivery(db: Queryable, ref: EndpointRef, last: LastDelivery): Promise<void> {
  await db.query(
    `update callback_endpoints set last_delivery = $3
     where project_id = $1 and endpoint_id = $2 and removed_at is null
       and (last_delivery is null or (last_delivery->>'at')::timestamptz <= ($3::jsonb->>'at')::timestamptz)`,
    [ref.projectId, ref.endpointId, JSON.stringify(last)],
  );
}
