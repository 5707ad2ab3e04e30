// Drafts of rules (docs/contract/rules.md). Creations of a monitor's drafts are in line by the lock of its live row; changes
// of a draft, by the lock of its own row.
import { DRAFT_EXPIRY_DAYS, type Draft, draftAt } from '../../domain/draft.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { isDistributed } from '../postgres/engine.ts';
import { type KeysetPage, keysetList, type Positioned } from '../postgres/keyset.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { MONITOR_REF, type MonitorRef } from './live.ts';

export interface DraftRef extends MonitorRef {
  draftId: string;
}

type Changeable = Pick<
  Draft,
  'version' | 'appliedConfigurationVersion' | 'status' | 'proposal' | 'updatedMs' | 'closedMs'
>;

const CHANGEABLE: Columns<Changeable> = {
  version: column.plain('version', 'integer'),
  appliedConfigurationVersion: column.plain('applied_configuration_version', 'integer'),
  status: column.plain('status', 'text'),
  proposal: column.json('proposal'),
  updatedMs: column.moment('updated_at'),
  closedMs: column.moment('closed_at'),
};

const DRAFT: Columns<Draft> = {
  draftId: column.plain('draft_id', 'text'),
  baseConfigurationVersion: column.plain('base_configuration_version', 'integer'),
  history: column.json('history'),
  createdMs: column.moment('created_at'),
  ...CHANGEABLE,
};

const NEW_DRAFT: Columns<{ ref: MonitorRef; draft: Draft }> = { ref: MONITOR_REF, draft: DRAFT };

/** With the moment of the read: one whose time is over has expired. */
const READ_DRAFT: Columns<{ draft: Draft; nowMs: number }> = {
  draft: DRAFT,
  nowMs: column.computed('now_ms', NOW_MS),
};
const toReadDraft = rowReader(READ_DRAFT);
const toDraft = (row: object) => {
  const { draft, nowMs } = toReadDraft(row);
  return draftAt(draft, nowMs);
};

const INSERT = statement(
  'insert-draft',
  (bind: Bind<{ ref: MonitorRef; draft: Draft }>) =>
    `insert into drafts (${sql.names(NEW_DRAFT)}) values (${sql.parameters(NEW_DRAFT, bind, (row) => row)})`,
);

export async function insertDraft(tx: Queryable, ref: MonitorRef, draft: Draft): Promise<void> {
  await tx.query(INSERT({ ref, draft }));
}

/** The open drafts of a monitor, counted up to `most` (index drafts_open_of_monitor). */
export async function countOpenDrafts(tx: Queryable, ref: MonitorRef, most: number): Promise<number> {
  const { rows } = await tx.query<{ count: number }>({
    name: 'count-open-drafts',
    text: `select count(*)::integer as count from (
        select from drafts where project_id = $1 and monitor_key = $2 and status = 'open'
          and updated_at > clock_timestamp() - interval '${DRAFT_EXPIRY_DAYS} days' limit $3) open`,
    values: [ref.projectId, ref.monitorKey, most],
  });
  return rows[0]?.count ?? 0;
}

/**
 * Deletes the closed drafts of a monitor that are older than its newest `most` closed ones, the oldest 1,000 at most (index
 * drafts_monitor). An open draft whose time is over counts as open until the sweeper closes it.
 */
export async function trimClosedDrafts(tx: Queryable, ref: MonitorRef, most: number): Promise<void> {
  await tx.query({
    name: 'trim-closed-drafts',
    text: `delete from drafts where project_id = $1 and monitor_key = $2 and status <> 'open' and draft_id in (
        select draft_id from drafts where project_id = $1 and monitor_key = $2 and status <> 'open'
        order by draft_id desc limit 1000 offset $3)`,
    values: [ref.projectId, ref.monitorKey, most],
  });
}

const find = (ending: string) => `select ${sql.select(READ_DRAFT, 'd')} from drafts d
  where d.project_id = $1 and d.monitor_key = $2 and d.draft_id = $3 ${ending}`;

/** A draft of that monitor. */
export async function findDraft(db: Queryable, ref: DraftRef): Promise<Draft | undefined> {
  const values = [ref.projectId, ref.monitorKey, ref.draftId];
  const { rows } = await db.query({ name: 'find-draft', text: find(''), values });
  return rows.map(toDraft)[0];
}

/** As `findDraft`, and locks its row. Who changes the monitor too locks its live row first. */
export async function lockDraft(tx: Queryable, ref: DraftRef): Promise<Draft | undefined> {
  const values = [ref.projectId, ref.monitorKey, ref.draftId];
  const { rows } = await tx.query({ name: 'lock-draft', text: find('for update'), values });
  return rows.map(toDraft)[0];
}

const UPDATE = statement(
  'update-draft',
  (bind: Bind<{ projectId: string; draft: Draft }>) =>
    `update drafts set (${sql.names(CHANGEABLE)}) =
       row (${sql.parameters(CHANGEABLE, bind, ({ draft }) => draft)})
     where project_id = ${bind(({ projectId }) => projectId)} and draft_id = ${bind(({ draft }) => draft.draftId)}`,
);

/** Writes what changes of a draft. The caller has locked its row. */
export async function updateDraft(
  tx: Queryable,
  { projectId }: Pick<MonitorRef, 'projectId'>,
  draft: Draft,
): Promise<void> {
  await tx.query(UPDATE({ projectId, draft }));
}

const list = keysetList(READ_DRAFT, { from: 'drafts d', alias: 'd', id: 'draft_id' });

/** Newest first: ids are made from the creation (index drafts_monitor). */
export async function listDrafts(
  db: Queryable,
  ref: MonitorRef,
  page: KeysetPage,
): Promise<Positioned<Draft>[]> {
  const rows = await list(
    db,
    [
      ['d.project_id = $', ref.projectId],
      ['d.monitor_key = $', ref.monitorKey],
    ],
    page,
  );
  return rows.map(({ item, position }) => ({ item: draftAt(item.draft, item.nowMs), position }));
}

const EXPIRED = `status = 'open' and updated_at <= clock_timestamp() - interval '${DRAFT_EXPIRY_DAYS} days'`;

const OLDEST_EXPIRED = `select project_id, draft_id from drafts where ${EXPIRED} order by updated_at limit $1`;
const EXPIRE = `update drafts d set status = 'expired', closed_at = d.updated_at + interval '${DRAFT_EXPIRY_DAYS} days'`;

const EXPIRE_FREE = `with due as materialized (${OLDEST_EXPIRED} for update skip locked)
  ${EXPIRE} from due where d.project_id = due.project_id and d.draft_id = due.draft_id`;

/** On Citus, which locks no rows of a subquery. It waits for rows that others have locked. */
const EXPIRE_IN_SHARDS = `${EXPIRE} where (project_id, draft_id) in (${OLDEST_EXPIRED}) and ${EXPIRED}`;

/**
 * Closes open drafts whose time is over, at most `limit` (index drafts_open); returns how many. Leaves out rows that others
 * have locked, so it waits for nothing.
 */
export async function expireDrafts(db: Queryable, limit: number): Promise<number> {
  const { rowCount } = await db.query(isDistributed() ? EXPIRE_IN_SHARDS : EXPIRE_FREE, [limit]);
  return rowCount ?? 0;
}
