// The status feed's reads: monitors whose live row changed after a Postgres snapshot. A change is stamped with its
// transaction (monitor_live.changed_xid) and is new to a cursor when that transaction is not visible in the cursor's
// snapshot: a transaction that commits late is not skipped, and one that stays open does not delay others.
// live_changes says where to look (docs/adr/0004). What it no longer has for a cursor is found in the live rows alone.

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
  is_complete: boolean;
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
 * Whether a live row `l` changed after a snapshot. The upper bound leaves out rows that were restored from another cluster
 * with ids that this one has not reached yet: they would stay new for ever.
 */
function isNew(since: string): string {
  return `l.changed_xid >= pg_snapshot_xmin(${since}) and l.changed_xid < pg_snapshot_xmax(pg_current_snapshot())
    and not pg_visible_in_snapshot(l.changed_xid, ${since})`;
}

/** Of the records of all projects. Past this the live rows of a reader's own projects are read instead. */
const MOST_RECORDS = 1_000;
const MOST_KEYS = 5_000;

/**
 * The CTEs `recent`, with the records of transactions from `from` on and of those `running`, and `log`, which says whether
 * they are few enough to be read, if `isKept`. Transactions that were over before are not read, however old the oldest is
 * that still runs anywhere on the server.
 */
function readLog({ from, running, isKept }: { from: string; running: string; isKept: string }): string {
  return `recent as materialized (
      select * from (
        select * from live_changes c
        where c.changed_xid >= ${from} and c.changed_xid < pg_snapshot_xmax(pg_current_snapshot())
        union all
        select * from live_changes c where c.changed_xid in (${running}) and c.changed_xid < ${from}) c
      where ${isKept} limit ${MOST_RECORDS + 1}),
    log as materialized (
      select ${isKept} and count(*) <= ${MOST_RECORDS} and coalesce(sum(cardinality(monitor_keys)), 0) <= ${MOST_KEYS}
        as is_complete
      from recent)`;
}

const FLOOR = '(select floor_xid from live_changes_floor)';
const LOG = readLog({
  from: 'pg_snapshot_xmax($6::pg_snapshot)',
  running: 'select pg_snapshot_xip($6::pg_snapshot)',
  isKept: `pg_snapshot_xmin($6::pg_snapshot) >= ${FLOOR}`,
});

/** One page, the history and the snapshot, in one statement, so that the page shows what the snapshot has. */
export async function readFeedPage(db: Queryable, query: FeedQuery): Promise<FeedPage> {
  if (!query.since) return toPage(await readPage(db, query, 'feed-listing', LISTING));
  const rows = await readPage(db, query, 'feed-changes', CHANGES);
  return toPage(rows[0]?.is_complete ? rows : await readPage(db, query, 'feed-old-changes', OLD_CHANGES));
}

async function readPage(
  db: Queryable,
  { scope, since, after, limit }: FeedQuery,
  name: string,
  page: string,
): Promise<FeedColumns[]> {
  const values = [scope.organizationId, scope.projectId, after?.projectId, after?.monitorKey, limit];
  const log = page === CHANGES ? LOG : 'log as (select true as is_complete)';
  const text = `${WITH_CLOCK}, ${log}, head as materialized (${HISTORY}),
     page as materialized (${page})
     select log.is_complete, head.history, head.snapshot::text, r.*
     from log cross join head left join (
       select ${RECORD_COLUMNS}, page.change_sequence
       ${RECORD_FROM} join page on page.project_id = m.project_id and page.monitor_key = m.monitor_key) r on true
     order by r.project_id, r.monitor_key`;
  const { rows } = await db.query<FeedColumns>({
    name,
    text,
    values: since ? [...values, snapshotText(since)] : values,
  });
  return rows;
}

function toPage(rows: FeedColumns[]): FeedPage {
  const [first] = rows;
  if (!first) throw new Error('The database answered without a snapshot.');
  const items = rows
    .filter((row) => row.monitor_key !== null)
    .map((row) => ({ monitor: toMonitorRecord(row), changeSequence: row.change_sequence }));
  return { history: first.history, snapshot: parseSnapshot(first.snapshot), items };
}

const OF_SUBJECT =
  'p.organization_id = w.organization_id and (w.project_id is null or p.project_id = w.project_id)';
const PROJECTS = 'p.organization_id = $1 and ($2::uuid is null or p.project_id = $2)';

/** Reads the index of the primary key project by project, and stops at the limit. */
const inKeyOrder = (where: string) => `select l.project_id, l.monitor_key, l.change_sequence
  from (select project_id from projects p
    where ${PROJECTS} and ($3::uuid is null or p.project_id >= $3) order by project_id) p
  cross join lateral (
    select l.project_id, l.monitor_key, l.changed_xid::text::bigint as change_sequence
    from monitor_live l
    where l.project_id = p.project_id
      and l.monitor_key > case when p.project_id = $3 then $4::uuid else '00000000-0000-0000-0000-000000000000' end
      ${where}
    order by l.monitor_key limit $5) l
  order by l.project_id, l.monitor_key limit $5`;
const LISTING = inKeyOrder('');
const OLD_CHANGES = inKeyOrder(`and ${isNew('$6::pg_snapshot')}`);

/**
 * From live_changes to the live rows, one by one: the planner cannot know how few they are. Hashes of projects may be
 * equal: then the live row is not found. All changes of a row are one, with the stamp of the newest.
 */
const CHANGES = `select l.project_id, l.monitor_key, l.changed_xid::text::bigint as change_sequence
  from (
    select distinct p.project_id, k.monitor_key
    from log
    join recent c on log.is_complete
    cross join lateral unnest(c.project_hashes, c.monitor_keys) as k (project_hash, monitor_key)
    join projects p on uuid_hash(p.project_id) = k.project_hash
    where ${PROJECTS} and ($3::uuid is null or (p.project_id, k.monitor_key) > ($3::uuid, $4::uuid))
    offset 0) k
  cross join lateral (
    select * from monitor_live l where l.project_id = k.project_id and l.monitor_key = k.monitor_key limit 1) l
  where ${isNew('$6::pg_snapshot')}
  order by l.project_id, l.monitor_key limit $5`;

/**
 * For each subject whether anything has changed in its scope since its snapshot: one query for all waiting calls. Without
 * the records of a subject its live rows answer; their order lets the planner choose their index and no other way.
 */
const HAVE_CHANGED = `with waiting as materialized (
    select w.*, pg_snapshot_xmin(w.since) >= ${FLOOR} as is_kept
    from unnest($1::uuid[], $2::uuid[], $3::pg_snapshot[]) with ordinality as w (organization_id, project_id, since, n)),
  ${readLog({
    from: '(select pg_snapshot_xmax(since) from waiting where is_kept order by 1 limit 1)',
    running: 'select pg_snapshot_xip(since) from waiting where is_kept',
    isKept: 'exists (select from waiting where is_kept)',
  })},
  touched as materialized (
    select distinct c.changed_xid, k.project_hash from log
    join recent c on log.is_complete cross join lateral unnest(c.project_hashes) as k (project_hash))
  select pg_current_snapshot()::text as snapshot, array (
    select w.n::integer from waiting w, log
    where case when w.is_kept and log.is_complete
      then exists (
        select from projects p join touched t on t.project_hash = uuid_hash(p.project_id)
        where ${OF_SUBJECT} and not pg_visible_in_snapshot(t.changed_xid, w.since))
      else exists (
        select from projects p cross join lateral (
          select from monitor_live l where l.project_id = p.project_id and ${isNew('w.since')}
          order by l.monitor_key limit 1) l
        where ${OF_SUBJECT})
      end) as changed`;

/** Also the snapshot of the answer: what has not changed in the one of its subject has not changed in this one either. */
export async function haveChanged(
  db: Queryable,
  subjects: readonly { scope: FeedScope; since: Snapshot }[],
): Promise<{ changed: boolean[]; snapshot: Snapshot }> {
  const { rows } = await db.query<{ snapshot: string; changed: number[] }>({
    name: 'have-changed',
    text: HAVE_CHANGED,
    values: [
      subjects.map(({ scope }) => scope.organizationId),
      subjects.map(({ scope }) => scope.projectId),
      subjects.map(({ since }) => snapshotText(since)),
    ],
  });
  const [first] = rows;
  if (!first) throw new Error('The database answered without a snapshot.');
  const changed = new Set(first.changed);
  return {
    changed: subjects.map((_, index) => changed.has(index + 1)),
    snapshot: parseSnapshot(first.snapshot),
  };
}

/** The text of pg_snapshot: `xmin:xmax:running,…`. */
function snapshotText({ xmin, xmax, running }: Snapshot): string {
  return `${xmin}:${xmax}:${running.join(',')}`;
}

function parseSnapshot(text: string): Snapshot {
  const [xmin, xmax, running] = text.split(':');
  return { xmin: Number(xmin), xmax: Number(xmax), running: running ? running.split(',').map(Number) : [] };
}
