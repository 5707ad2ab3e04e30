// Callback endpoints: rows, lists, and the organization's count and default. Lock order: the endpoint's row, then its
// secrets and deliveries, last the organization's row, which all of its projects share. A removed endpoint keeps its
// row, without address and secrets, so that bindings can report the removal.
import type { DeliveryState, EndpointKind, EndpointLifecycle } from '../../domain/callback.ts';
import type { EndpointOrigin, Origin } from '../../domain/origin.ts';
import { toTime } from '../../domain/timestamp.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { ChangedMeanwhile, codeOf, SQLSTATE } from '../postgres/database-error.ts';
import { isDistributed } from '../postgres/engine.ts';
import { type Condition, type KeysetPage, keysetList, type Positioned } from '../postgres/keyset.ts';
import { fromMillis, millis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface EndpointRef {
  projectId: string;
  endpointId: string;
}

/** The version of the secret that signs, and of the one before while both sign. */
export interface SecretMetadata {
  version: number;
  issuedMs: number;
  previous?: { version: number; endsMs: number };
}

export interface LastDelivery {
  state: DeliveryState;
  atMs: number;
  statusCode?: number;
}

/** An endpoint that is not removed. */
export interface EndpointRow extends EndpointRef {
  /** Undefined for the endpoint of an inline binding. */
  alias?: string;
  kind: EndpointKind;
  /** Sealed. Every webhook has one. */
  urlBox?: Buffer;
  relay?: { actorId: string; notifierId: string; contractVersion: string };
  relayGroup?: { notifierId: string; contractVersion: string };
  /** Of a relay kind: the topic in relay-topics.ts. */
  relayTopicId?: string;
  lifecycle: EndpointLifecycle;
  disabledMs?: number;
  disabledReason?: string;
  /** Deliveries that were created until then are canceled: the endpoint was disabled at that moment, and may be active again. */
  canceledUntilMs?: number;
  generation: number;
  /** The only monitor that the endpoint of an inline binding serves. */
  monitorKey?: string;
  createdMs: number;
  updatedMs: number;
  isOrganizationDefault: boolean;
  origin?: EndpointOrigin;
  secret?: SecretMetadata;
  lastDelivery?: LastDelivery;
}

/** The columns that an update writes. */
export type EndpointState = Pick<
  EndpointRow,
  | 'alias'
  | 'urlBox'
  | 'relay'
  | 'relayGroup'
  | 'relayTopicId'
  | 'lifecycle'
  | 'disabledMs'
  | 'disabledReason'
  | 'canceledUntilMs'
  | 'generation'
  | 'updatedMs'
  | 'origin'
>;

export type NewEndpoint = Pick<
  EndpointRow,
  | 'projectId'
  | 'endpointId'
  | 'alias'
  | 'kind'
  | 'urlBox'
  | 'relay'
  | 'relayGroup'
  | 'relayTopicId'
  | 'monitorKey'
  | 'createdMs'
  | 'origin'
>;

const STATE: Columns<EndpointState> = {
  alias: column.quoted('alias', 'text'),
  urlBox: column.quoted('url_box', 'bytea'),
  relay: column.json('relay'),
  relayGroup: column.json('relay_group'),
  relayTopicId: column.plain('relay_topic_id', 'uuid'),
  lifecycle: column.plain('lifecycle', 'text'),
  disabledMs: column.moment('disabled_at'),
  disabledReason: column.quoted('disabled_reason', 'text'),
  canceledUntilMs: column.moment('canceled_until'),
  generation: column.plain('generation', 'bigint'),
  updatedMs: column.moment('updated_at'),
  origin: column.optional({
    kind: column.plain('origin_kind', 'text'),
    namespace: column.quoted('origin_namespace', 'text'),
    name: column.quoted('origin_name', 'text'),
    uid: column.quoted('origin_uid', 'text'),
    ownedFields: column.json('origin_owned_fields'),
  }),
};

const NEW: Columns<NewEndpoint> = {
  projectId: column.plain('project_id', 'uuid'),
  endpointId: column.quoted('endpoint_id', 'text'),
  alias: STATE.alias,
  kind: column.plain('kind', 'text'),
  urlBox: STATE.urlBox,
  relay: STATE.relay,
  relayGroup: STATE.relayGroup,
  relayTopicId: STATE.relayTopicId,
  monitorKey: column.plain('monitor_key', 'uuid'),
  createdMs: column.moment('created_at'),
  origin: STATE.origin,
};

const LAST_DELIVERY = column.of<LastDelivery>('last_delivery', {
  type: 'jsonb',
  encode: ({ atMs, ...last }) => JSON.stringify({ ...last, at: toTime(atMs) }),
  decode: (stored: { state: DeliveryState; at: string; statusCode?: number } | null) =>
    stored ? { state: stored.state, atMs: Date.parse(stored.at), statusCode: stored.statusCode } : undefined,
});

/** Of `callback_endpoints e` and the tables that FROM joins to it. */
export const ENDPOINT: Columns<EndpointRow> = {
  ...NEW,
  ...STATE,
  isOrganizationDefault: column.computed(
    'is_default',
    `(o.default_endpoint_id is not distinct from e.endpoint_id
      and o.default_project_id is not distinct from e.project_id)`,
  ),
  secret: column.optional({
    version: column.computed('secret_version', 's.version'),
    issuedMs: column.computed('secret_issued_at', millis('s.issued_at')),
    previous: column.optional({
      version: column.computed('previous_version', 'before.version'),
      endsMs: column.computed('previous_ends_at', millis('before.ends_at')),
    }),
  }),
  lastDelivery: LAST_DELIVERY,
};
const toEndpointRow = rowReader(ENDPOINT);

const FROM = `callback_endpoints e
  join projects p on p.project_id = e.project_id
  join organizations o on o.organization_id = p.organization_id
  left join signing_secrets s
    on s.project_id = e.project_id and s.endpoint_id = e.endpoint_id and s.ends_at is null
  left join signing_secrets before
    on before.project_id = e.project_id and before.endpoint_id = e.endpoint_id
      and before.version = s.version - 1 and before.ends_at > clock_timestamp()`;

const list = keysetList(ENDPOINT, { from: FROM, alias: 'e', time: 'created_at', id: 'endpoint_id' });

/** Finds an endpoint, also an inline one, that is not removed. */
export async function findEndpoint(db: Queryable, ref: EndpointRef): Promise<EndpointRow | undefined> {
  const { rows } = await db.query({
    name: 'find-endpoint',
    text: `select ${sql.select(ENDPOINT, 'e')} from ${FROM}
      where e.project_id = $1 and e.endpoint_id = $2 and e.removed_at is null`,
    values: [ref.projectId, ref.endpointId],
  });
  return rows.map(toEndpointRow)[0];
}

/** The endpoints of a project, newest first, without inline ones (index callback_endpoints_list). */
export async function listEndpoints(
  db: Queryable,
  projectId: string,
  page: KeysetPage,
): Promise<Positioned<EndpointRow>[]> {
  const conditions: Condition[] = [
    ['e.project_id = $', projectId],
    ['e.removed_at is null'],
    ['e.monitor_key is null'],
  ];
  return await list(db, conditions, page);
}

/** Finds an endpoint and locks its row until the transaction ends. */
export async function lockEndpoint(tx: Queryable, ref: EndpointRef): Promise<EndpointRow | undefined> {
  const { rowCount } = await tx.query(
    `select from callback_endpoints where project_id = $1 and endpoint_id = $2 and removed_at is null for update`,
    [ref.projectId, ref.endpointId],
  );
  // A statement after the wait for the lock sees what the previous holder committed.
  return rowCount === 0 ? undefined : findEndpoint(tx, ref);
}

export type InsertResult = 'inserted' | 'id_taken' | 'origin_taken' | 'alias_taken';

const INSERT = statement(
  'insert-endpoint',
  (bind: Bind<NewEndpoint>) => `insert into callback_endpoints (${sql.names(NEW)}, updated_at)
    values (${sql.parameters(NEW, bind, (endpoint) => endpoint)}, ${fromMillis(bind(({ createdMs }) => createdMs))})
    on conflict do nothing`,
);

/**
 * Inserts an active endpoint of generation 1. An id stays taken forever, origin and alias until their endpoint is removed.
 * Of several that are taken, the one that leads to the right endpoint is named: the id, then the origin.
 */
export async function insertEndpoint(tx: Queryable, endpoint: NewEndpoint): Promise<InsertResult> {
  const { rowCount } = await tx.query(INSERT(endpoint));
  if (rowCount === 1) return 'inserted';
  const { rows } = await tx.query(
    'select from callback_endpoints where project_id = $1 and endpoint_id = $2',
    [endpoint.projectId, endpoint.endpointId],
  );
  if (rows.length > 0) return 'id_taken';
  const { projectId, origin } = endpoint;
  return origin && (await findEndpointOfOrigin(tx, projectId, origin)) ? 'origin_taken' : 'alias_taken';
}

const UPDATE = statement(
  'update-endpoint',
  (bind: Bind<EndpointRef & EndpointState>) => `update callback_endpoints
    set (${sql.names(STATE)}) = row (${sql.parameters(STATE, bind, (state) => state)})
    where project_id = ${bind(({ projectId }) => projectId)} and endpoint_id = ${bind(({ endpointId }) => endpointId)}`,
);

/**
 * Writes the changeable part of an endpoint. The caller has locked the row.
 * Returns `alias_taken` when another endpoint has the alias; the transaction has failed then. It runs again where another
 * transaction has given the origin to an endpoint that is not locked here.
 */
export async function updateEndpoint(
  tx: Queryable,
  { projectId, endpointId }: EndpointRef,
  state: EndpointState,
): Promise<'updated' | 'alias_taken'> {
  try {
    await tx.query(UPDATE({ ...state, projectId, endpointId }));
    return 'updated';
  } catch (error) {
    if (isOriginTaken(error)) throw new ChangedMeanwhile('The origin was taken.');
    if (codeOf(error) === SQLSTATE.uniqueViolation) return 'alias_taken';
    throw error;
  }
}

/** Marks the endpoint as removed and erases its address. */
export async function removeEndpoint(tx: Queryable, ref: EndpointRef, nowMs: number): Promise<void> {
  await tx.query(
    `update callback_endpoints set removed_at = ${fromMillis('$3')}, updated_at = ${fromMillis('$3')},
       origin_kind = null, origin_namespace = null, origin_name = null, origin_uid = null,
       origin_owned_fields = null,
       url_box = null, relay = null, relay_group = null, relay_topic_id = null, last_delivery = null,
       generation = generation + 1
     where project_id = $1 and endpoint_id = $2`,
    [ref.projectId, ref.endpointId, nowMs],
  );
}

function isOriginTaken(error: unknown): boolean {
  return (error as { constraint?: unknown } | undefined)?.constraint === 'callback_endpoints_origin';
}

/** The id of the endpoint of the project that has the origin. */
export async function findEndpointOfOrigin(
  db: Queryable,
  projectId: string,
  { kind, namespace, name }: Origin,
): Promise<string | undefined> {
  const { rows } = await db.query<{ endpoint_id: string }>({
    name: 'find-endpoint-of-origin',
    text: `select endpoint_id from callback_endpoints
      where project_id = $1 and origin_kind = $2 and origin_namespace = $3 and origin_name = $4`,
    values: [projectId, kind, namespace, name],
  });
  return rows[0]?.endpoint_id;
}

export interface NewestDelivery extends EndpointRef {
  /** Absent: no attempt was made. */
  last?: LastDelivery;
}

const NEWEST_DELIVERY: Columns<NewestDelivery> = {
  projectId: NEW.projectId,
  endpointId: NEW.endpointId,
  last: LAST_DELIVERY,
};

const momentOf = (alias: string) => `(${alias}.last_delivery->>'at')::timestamptz`;
/** An update on Citus converts no text of a column to a moment. These texts have one length, and the order of time. */
const textOf = (alias: string) => `(${alias}.last_delivery->>'at') collate "C"`;

/** SQL: the update to the `last_delivery` of the rows `v` of `from`; an older one never replaces a newer one. */
export function setLastDelivery(from: string): string {
  const atOf = isDistributed() ? textOf : momentOf;
  return `update callback_endpoints e set ${sql.assignments({ last: LAST_DELIVERY })}
    from ${from} v
    where e.project_id = v.project_id and e.endpoint_id = v.endpoint_id and e.removed_at is null
      and v.last_delivery is not null and (e.last_delivery is null
        or ${atOf('e')} <= ${atOf('v')})`;
}

const UPDATE_LAST = statement('update-last-deliveries', (bind: Bind<readonly NewestDelivery[]>) =>
  setLastDelivery(`(select v.* from ${sql.unnest(NEWEST_DELIVERY, bind, (rows) => rows)})`),
);

/**
 * Writes the newest delivery of each endpoint. An older one never replaces a newer one. Lock the endpoints' rows before
 * any delivery: they come first in the lock order.
 */
export async function updateLastDeliveries(tx: Queryable, rows: readonly NewestDelivery[]): Promise<void> {
  if (rows.length > 0) await tx.query(UPDATE_LAST(rows));
}

/** Counts endpoints up or down. Returns the new count and the plan that limits it. */
export async function changeEndpointCount(
  tx: Queryable,
  organizationId: string,
  change: 1 | -1,
): Promise<{ count: number; planId: string }> {
  const { rows } = await tx.query<{ callback_endpoints: number; plan: string }>(
    `update organizations set callback_endpoints = greatest(0, callback_endpoints + $2)
     where organization_id = $1 returning callback_endpoints + endpoints_elsewhere as callback_endpoints, plan`,
    [organizationId, change],
  );
  const row = rows[0];
  if (!row) throw new Error(`There is no organization ${organizationId}.`);
  return { count: row.callback_endpoints, planId: row.plan };
}

/** The organization's default endpoint, which may be removed by now. */
export async function findDefaultEndpoint(
  db: Queryable,
  organizationId: string,
): Promise<EndpointRef | undefined> {
  const { rows } = await db.query<{ default_project_id: string | null; default_endpoint_id: string | null }>(
    'select default_project_id, default_endpoint_id from organizations where organization_id = $1',
    [organizationId],
  );
  const { default_project_id: projectId, default_endpoint_id: endpointId } = rows[0] ?? {};
  return projectId && endpointId ? { projectId, endpointId } : undefined;
}

/** Sets the organization's default endpoint; undefined clears it. False: it was not `before` any more. */
export async function replaceDefaultEndpoint(
  tx: Queryable,
  organizationId: string,
  { before, after }: { before: EndpointRef | undefined; after: EndpointRef | undefined },
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update organizations set default_project_id = $2, default_endpoint_id = $3
     where organization_id = $1
       and default_project_id is not distinct from $4 and default_endpoint_id is not distinct from $5`,
    [organizationId, after?.projectId, after?.endpointId, before?.projectId, before?.endpointId],
  );
  return rowCount === 1;
}
