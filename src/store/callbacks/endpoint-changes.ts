// Change records of callback endpoints: written in the transaction of the change and never updated. They outlive their
// endpoint by some days. Of an address they have the origin alone: its path often is a secret.
import type { EndpointLifecycle, RelayDestination } from '../../domain/callback.ts';
import { KEPT_DAYS } from '../../domain/retention.ts';
import { CHANGE_SOURCE, type ChangeSource } from '../monitors/monitor-changes.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { isDistributed } from '../postgres/engine.ts';
import type { Queryable } from '../postgres/pool.ts';
import type { EndpointRef } from './callback-endpoints.ts';

/** What a value was and is; absent where there was or is none. */
export interface Moved<Value = string> {
  from?: Value;
  to?: Value;
}

/** Fields that changed, and why where nobody asked for it. */
export interface ChangeDetails {
  alias?: Moved;
  /** Origins. They are equal when only the path changed. */
  url?: Moved;
  relay?: Moved<RelayDestination>;
  reason?: string;
}

export type EndpointChangeKind =
  | { kind: 'configuration'; action: 'create' | 'update' | 'rotate_secret' | 'set_default' | 'clear_default' }
  | {
      kind: 'lifecycle';
      action: 'enable' | 'disable' | 'remove';
      from: EndpointLifecycle;
      to: EndpointLifecycle | 'removed';
    };

export interface EndpointChangeRecord extends ChangeSource {
  change: EndpointChangeKind;
  details: ChangeDetails;
  /** Of the endpoint after the change. */
  generation: number;
}

interface ChangeRow extends Omit<EndpointChangeRecord, 'change'> {
  kind: EndpointChangeKind['kind'];
  action: EndpointChangeKind['action'];
  from?: string;
  to?: string;
}

const CHANGE: Columns<ChangeRow> = {
  generation: column.plain('generation', 'bigint'),
  kind: column.plain('kind', 'text'),
  action: column.plain('action', 'text'),
  from: column.plain('lifecycle_from', 'text'),
  to: column.plain('lifecycle_to', 'text'),
  details: column.json('details'),
  ...CHANGE_SOURCE,
};

/** `number` counts the changes of an endpoint from 1. */
type NumberedRow = ChangeRow & { number: number };
const NUMBERED: Columns<NumberedRow> = { ...CHANGE, number: column.plain('change_number', 'integer') };
const toNumberedRow = rowReader(NUMBERED);

type NewRow = EndpointRef & ChangeRow & { number?: number };

const nextNumber = (
  projectId: string,
  endpointId: string,
) => `select coalesce(max(change_number), 0) + 1 from endpoint_changes
         where project_id = ${projectId} and endpoint_id = ${endpointId}`;

const INSERT = statement('insert-endpoint-change', (bind: Bind<NewRow>) => {
  const projectId = bind((row) => row.projectId);
  const endpointId = bind((row) => row.endpointId);
  const number = isDistributed() ? bind((row) => row.number) : `(${nextNumber(projectId, endpointId)})`;
  return `insert into endpoint_changes (project_id, endpoint_id, change_number, ${sql.names(CHANGE)})
      values (${projectId}, ${endpointId},
        ${number},
        ${sql.parameters(CHANGE, bind, (row) => row)})`;
});

/** The caller has locked the endpoint's row, or has just inserted it. */
export async function insertEndpointChange(
  tx: Queryable,
  { projectId, endpointId }: EndpointRef,
  { change, ...record }: EndpointChangeRecord,
): Promise<void> {
  const number = isDistributed() ? await readNextNumber(tx, { projectId, endpointId }) : undefined;
  await tx.query(INSERT({ projectId, endpointId, number, ...record, ...change }));
}

/** Citus takes no sub-select in an insert. */
async function readNextNumber(tx: Queryable, { projectId, endpointId }: EndpointRef): Promise<number> {
  const { rows } = await tx.query<{ number: number }>(
    `select number from (${nextNumber('$1', '$2')}) as v (number)`,
    [projectId, endpointId],
  );
  return rows[0]?.number ?? 1;
}

/** The endpoint is removed: its records go after some days. */
export async function expireEndpointChanges(tx: Queryable, ref: EndpointRef): Promise<void> {
  await tx.query(
    `update endpoint_changes set expires_at = statement_timestamp() + interval '${KEPT_DAYS.endpointChanges} days'
     where project_id = $1 and endpoint_id = $2`,
    [ref.projectId, ref.endpointId],
  );
}

/** Newest first; `before` is the number of the last record of the page before. An endpoint has at least its creation. */
export async function listEndpointChanges(
  db: Queryable,
  ref: EndpointRef,
  page: { limit: number; before?: number },
): Promise<(EndpointChangeRecord & { number: number })[]> {
  const { rows } = await db.query({
    name: 'list-endpoint-changes',
    text: `select ${sql.select(NUMBERED, 'c')} from endpoint_changes c
      where c.project_id = $1 and c.endpoint_id = $2 and c.change_number < $3
        and (c.expires_at is null or c.expires_at > clock_timestamp())
      order by c.change_number desc limit $4`,
    values: [ref.projectId, ref.endpointId, page.before ?? 2_147_483_647, page.limit],
  });
  return rows.map((row) => {
    const { kind, action, from, to, ...record } = toNumberedRow(row);
    return { ...record, change: { kind, action, from, to } as EndpointChangeKind };
  });
}
