// The status feed's reads: monitors whose live row changed after a Postgres snapshot. A change is stamped with its
// transaction (monitor_live.changed_xid) and is new to a cursor when that transaction is not visible in the cursor's
// snapshot: a transaction that commits late is not skipped, and one that stays open does not delay others.
// Relies on monitor_live_changed (project_id, changed_xid).

import type { Queryable } from '../postgres/pool.ts';
import type { MonitorRef } from './live.ts';
import {
  type MonitorRecord,
  RECORD_COLUMNS,
  RECORD_FROM,
  toMonitorRecord,
  WITH_CLOCK,
} from './monitor-record.ts';

/**
 * A Postgres snapshot (pg_snapshot): transactions before `xmin` are in it, those from `xmax` on and `running` are not.
 */
export interface Snapshot {
  xmin: number;
  xmax: number;
  /** Ascending. */
  running: readonly number[];
}

export interface FeedScope {
  organizationId: string;
  /** Undefined: all projects of the organization. */
  projectId?: string;
}

export interface FeedQuery {
  scope: FeedScope;
  /** Undefined: every monitor. */
  since?: Snapshot;
  /** The last monitor of the page before, in the order of (project, monitor key). */
  after?: MonitorRef;
  limit: number;
}

export interface FeedItem {
  monitor: MonitorRecord;
  changeSequence: number;
}

export interface FeedPage {
  /** The name of this history of transactions. It changes with a restore into a new cluster or a failover. */
  history: string;
  /** The snapshot that the page was read under. */
  snapshot: Snapshot;
  items: FeedItem[];
}

interface FeedColumns {
  history: string;
  snapshot: string;
  change_sequence: number;
  monitor_key: string | null;
}

/**
 * The history's name: the cluster and its timeline, which changes with each promotion and each recovery to a point in
 * time. Transaction ids are valid inside one history only.
 */
const HISTORY = `select (pg_control_system()).system_identifier::text || '.'
    || left(pg_walfile_name(pg_current_wal_lsn()), 8) as history, pg_current_snapshot() as snapshot`;

/**
 * Changes after a snapshot. The upper bound leaves out rows that were restored from another cluster with ids that this
 * one has not reached yet: they would stay new for ever.
 */
function isNew(since: string): string {
  return `l.changed_xid >= pg_snapshot_xmin(${since}) and l.changed_xid < pg_snapshot_xmax(pg_current_snapshot())
    and not pg_visible_in_snapshot(l.changed_xid, ${since})`;
}

/** One page, the history and the snapshot, in one statement, so that the page shows what the snapshot has. */
export async function readFeedPage(db: Queryable, query: FeedQuery): Promise<FeedPage> {
  const { scope, since, after, limit } = query;
  const values = [scope.organizationId, scope.projectId, after?.projectId, after?.monitorKey, limit];
  const text = `${WITH_CLOCK}, head as materialized (${HISTORY}), page as materialized (${since ? CHANGES : LISTING})
     select head.history, head.snapshot::text, r.*
     from head left join (
       select ${RECORD_COLUMNS}, page.change_sequence
       ${RECORD_FROM} join page on page.project_id = m.project_id and page.monitor_key = m.monitor_key) r on true
     order by r.project_id, r.monitor_key`;
  const { rows } = await db.query<FeedColumns>({
    name: since ? 'feed-changes' : 'feed-listing',
    text,
    values: since ? [...values, snapshotText(since)] : values,
  });
  const [first] = rows;
  if (!first) throw new Error('The database answered without a snapshot.');
  const items = rows
    .filter((row) => row.monitor_key !== null)
    .map((row) => ({ monitor: toMonitorRecord(row), changeSequence: row.change_sequence }));
  return { history: first.history, snapshot: parseSnapshot(first.snapshot), items };
}

const PROJECTS = 'p.organization_id = $1 and ($2::uuid is null or p.project_id = $2)';

/** Reads the index of the primary key project by project, and stops at the limit. */
const LISTING = `select l.project_id, l.monitor_key, l.change_sequence
  from (select project_id from projects p
    where ${PROJECTS} and ($3::uuid is null or p.project_id >= $3) order by project_id) p
  cross join lateral (
    select l.project_id, l.monitor_key, l.changed_xid::text::bigint as change_sequence
    from monitor_live l
    where l.project_id = p.project_id
      and l.monitor_key > case when p.project_id = $3 then $4::uuid else '00000000-0000-0000-0000-000000000000' end
    order by l.monitor_key limit $5) l
  order by l.project_id, l.monitor_key limit $5`;

/** Finds what has changed by its index first, then sorts: a limit inside would tempt the planner to scan all rows. */
const CHANGES = `select * from (
    select l.project_id, l.monitor_key, l.changed_xid::text::bigint as change_sequence
    from projects p join monitor_live l on l.project_id = p.project_id
    where ${PROJECTS} and ${isNew('$6::pg_snapshot')}
      and ($3::uuid is null or (l.project_id, l.monitor_key) > ($3::uuid, $4::uuid))
    offset 0) as changed
  order by project_id, monitor_key limit $5`;

/**
 * For each subject whether anything has changed in its scope since its snapshot: one query for all waiting calls. The
 * inner order and limit make each check one probe of the index, however many checks there are.
 */
const HAVE_CHANGED = `select w.n
  from unnest($1::uuid[], $2::uuid[], $3::pg_snapshot[]) with ordinality as w (organization_id, project_id, since, n)
  cross join lateral (
    select from (
      select project_id from projects p
      where p.organization_id = w.organization_id and (w.project_id is null or p.project_id = w.project_id)
      offset 0) p
    cross join lateral (
      select from monitor_live l
      where l.project_id = p.project_id and ${isNew('w.since')}
      order by l.changed_xid limit 1) l
    limit 1) found`;

export async function haveChanged(
  db: Queryable,
  subjects: readonly { scope: FeedScope; since: Snapshot }[],
): Promise<boolean[]> {
  const { rows } = await db.query<{ n: number }>({
    name: 'have-changed',
    text: HAVE_CHANGED,
    values: [
      subjects.map(({ scope }) => scope.organizationId),
      subjects.map(({ scope }) => scope.projectId),
      subjects.map(({ since }) => snapshotText(since)),
    ],
  });
  const changed = new Set(rows.map((row) => row.n));
  return subjects.map((_, index) => changed.has(index + 1));
}

/** The text of pg_snapshot: `xmin:xmax:running,…`. */
function snapshotText({ xmin, xmax, running }: Snapshot): string {
  return `${xmin}:${xmax}:${running.join(',')}`;
}

function parseSnapshot(text: string): Snapshot {
  const [xmin, xmax, running] = text.split(':');
  return { xmin: Number(xmin), xmax: Number(xmax), running: running ? running.split(',').map(Number) : [] };
}
