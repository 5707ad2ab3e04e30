// Pages of the status feed: monitors whose live row changed after a Postgres snapshot. A change is stamped with its
// transaction (monitor_live.changed_xid) and is new to a cursor when that transaction is not visible in the cursor's
// snapshot: a transaction that commits late is not skipped, and one that stays open does not delay others.
// live_changes says where to look (docs/adr/0004). What it no longer has for a cursor is found in the live rows alone, a
// bounded stretch of them for each page.
import { isDistributed } from '../postgres/engine.ts';
import { sizeFor } from '../postgres/keyset.ts';
import { millis } from '../postgres/moments.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';
import {
  type FeedMoment,
  MOMENT,
  type MomentColumns,
  presentSnapshot,
  readMoment,
  type Snapshot,
  snapshotText,
  toMoment,
} from './feed-moment.ts';
import type { MonitorRef } from './live.ts';
import { FLOOR, readLog, readPassedByFloor } from './live-changes.ts';
import type { ChangeSource } from './monitor-changes.ts';
import {
  type MonitorRecord,
  RECORD_COLUMNS,
  RECORD_FROM,
  toMonitorRecord,
  WITH_CLOCK,
} from './monitor-record.ts';

export type { Snapshot };

export interface FeedScope {
  organizationId: string;
  /** Undefined: all projects of the organization. */
  projectId?: string;
}

export interface FeedQuery {
  scope: FeedScope;
  /** Undefined: every monitor. */
  since?: Snapshot;
  /** That `since` belongs to. In another one the live rows are not searched for it. */
  history?: string;
  /** The last monitor that was looked at, in the order of (project, monitor key). */
  after?: MonitorRef;
  limit: number;
  /** How many live rows a page looks at without records. Default: STRETCH. */
  stretch?: number;
}

export interface FeedItem {
  monitor: MonitorRecord;
  changeSequence: number;
  /** Of one that is not active: what has made it so. Undefined also where it has been changed very often since. */
  action?: Pick<ChangeSource, 'actor'> & { atMs: number };
}

/** Of the moment at which it was read. */
export interface FeedPage extends FeedMoment {
  /** May be fewer than the limit, or none, and have a `next`. */
  items: FeedItem[];
  /** The next page is after it; absent on the last one. */
  next?: MonitorRef;
}

interface FeedColumns extends MomentColumns {
  is_complete: boolean;
  end_project_id: string | null;
  end_monitor_key: string | null;
  change_sequence: number;
  action: FeedItem['action'] | null;
  monitor_key: string | null;
}

/** The newest lifecycle action of the monitor `m`, as the newest of at most so many changes. Citus takes no limit here. */
const ACTION = `case when m.lifecycle <> 'active' then (
    select (array_agg(jsonb_build_object('atMs', ${millis('c.occurred_at')}, 'actor', c.actor)
      order by c.configuration_version desc))[1]
    from monitor_changes c
    where c.project_id = m.project_id and c.monitor_key = m.monitor_key and c.kind = 'lifecycle'
      and c.configuration_version > m.configuration_version - 100) end`;

/** About as much work as the most records. */
const STRETCH = 20_000;

/** Of the records of all projects. Past this the live rows of a reader's own projects are read instead. */
const MOST = { records: 5_000, keys: STRETCH };

const SINCE = '$5::pg_snapshot';
const present = () => presentSnapshot('$6');
/**
 * Whether a live row `l` changed after the snapshot. The upper bound leaves out rows that were restored from another
 * cluster with ids that this one has not reached yet: they would stay new for ever.
 */
const isNew =
  () => `l.changed_xid >= pg_snapshot_xmin(${SINCE}) and l.changed_xid < pg_snapshot_xmax(${present()})
    and not pg_visible_in_snapshot(l.changed_xid, ${SINCE})`;

const PROJECTS = 'p.organization_id = $1 and ($2::uuid is null or p.project_id = $2)';

/**
 * Reads the index of the primary key project by project, and stops at the limit or where its reader does, if IN_KEY_ORDER is
 * set. A lateral read with a limit is made for one project after the other, so that the rows are in the order of both. The
 * last order names the project's own column alone: by that of the live row all projects would be read and sorted first, and
 * by the monitor key too, each project up to the limit.
 */
const byProject = (limit: number) => `select p.project_id, l.monitor_key, l.changed_xid
  from (select project_id from projects p
    where ${PROJECTS} and ($3::uuid is null or p.project_id >= $3) order by project_id) p
  cross join lateral (
    select l.monitor_key, l.changed_xid
    from monitor_live l
    where l.project_id = p.project_id
      and l.monitor_key > case when p.project_id = $3 then $4::uuid else '00000000-0000-0000-0000-000000000000' end
    order by l.monitor_key limit ${limit}) l
  order by p.project_id limit ${limit}`;

/** On Citus, which takes no lateral read with a limit: each shard sorts its own rows. */
const byShard = (limit: number) => `select l.project_id, l.monitor_key, l.changed_xid
  from monitor_live l join projects p on p.project_id = l.project_id
  where ${PROJECTS} and ($3::uuid is null or (l.project_id, l.monitor_key) > ($3::uuid, $4::uuid))
  order by l.project_id, l.monitor_key limit ${limit}`;

const inKeyOrder = (limit: number) => (isDistributed() ? byShard : byProject)(limit);

/** The CTE `log` of a page that reads no records, and where the rows that it looked at end, if there may be more. */
const ending = (end: string) => `log as materialized (
    select true as is_complete, stretch.project_id as end_project_id, stretch.monitor_key as end_monitor_key
    from (select) one left join (${end}) stretch on true)`;

/**
 * Of the reads in the order of the key. The planner knows no more than how many monitors a project has on average: it would
 * read the whole of a large one, and sort it, for each page.
 */
const IN_KEY_ORDER = 'set local enable_seqscan = off; set local enable_bitmapscan = off';

/** Joins the live row of the key, if it is new. */
const changedOf = (key: string) =>
  isDistributed()
    ? `join monitor_live l on ${key} and ${isNew()}`
    : `cross join lateral (
        select l.changed_xid from monitor_live l
        where ${key} and ${isNew()} limit 1) l`;

/** CTEs, which end with `log` and the `page` of keys. */
interface Reading {
  name: string;
  ctes: (size: number, stretch: number) => string;
}

const LISTING: Reading = {
  name: 'feed-listing',
  ctes: (size) => `page as materialized (${inKeyOrder(size)}),
    ${ending('select project_id, monitor_key from page limit 0')}`,
};

/** Reads no further than a full page needs. The last row of the stretch is looked up too, new or not. */
const OLD_CHANGES: Reading = {
  name: 'feed-old-changes',
  ctes: (size, stretch) => `found as materialized (
      select * from (
        select l.*, row_number() over () as n, ${isNew()} as is_new from (${inKeyOrder(stretch)}) l) l
      where is_new or n = ${stretch} limit ${size}),
    ${ending(`select project_id, monitor_key from found where n = ${stretch}`)},
    page as materialized (select * from found where is_new)`,
};

/**
 * From the records to the live rows, one by one and in key order until the page is full: the planner cannot know how few
 * they are. Hashes of projects may be equal: then the live row is not found. All changes of a row are one, with the stamp
 * of the newest.
 */
const CHANGES: Reading = {
  name: 'feed-changes',
  ctes: (size) => `${readLog({
    from: `pg_snapshot_xmax(${SINCE})`,
    running: `select pg_snapshot_xip(${SINCE})`,
    isKept: `pg_snapshot_xmin(${SINCE}) >= ${FLOOR}`,
    present: present(),
    most: MOST,
  })},
    page as materialized (
      select k.project_id, k.monitor_key, l.changed_xid
      from (
        select distinct p.project_id, k.monitor_key
        from log
        join recent c on log.is_complete
        cross join lateral unnest(c.project_hashes, c.monitor_keys) as k (project_hash, monitor_key)
        join projects p on uuid_hash(p.project_id) = k.project_hash
        where ${PROJECTS} and ($3::uuid is null or (p.project_id, k.monitor_key) > ($3::uuid, $4::uuid))
        order by p.project_id, k.monitor_key offset 0) k
      ${changedOf('l.project_id = k.project_id and l.monitor_key = k.monitor_key')}
      order by k.project_id, k.monitor_key limit ${size})`,
};

/**
 * One page and its moment, in one statement, so that the page shows what the snapshot has. On Citus the moment is read
 * before. A row that changes again between the two is not in this page: its stamp is past the moment, and the next read shows
 * it.
 */
export async function readFeedPage(db: Database, query: FeedQuery): Promise<FeedPage> {
  if (!query.since) return await readInKeyOrder(db, query, LISTING);
  const { page, isComplete } = await readPage(db, query, CHANGES);
  const isForeign = query.history !== undefined && query.history !== page.history;
  if (isForeign) return page;
  const isPassed = await readPassedByFloor(db);
  return isComplete && !isPassed(query.since) ? page : await readInKeyOrder(db, query, OLD_CHANGES);
}

async function readInKeyOrder(db: Database, query: FeedQuery, reading: Reading): Promise<FeedPage> {
  const { page } = await inTransaction(db, async (tx) => {
    await tx.query(IN_KEY_ORDER);
    return await readPage(tx, query, reading);
  });
  return page;
}

async function readPage(
  db: Queryable,
  query: FeedQuery,
  { name, ctes }: Reading,
): Promise<{ page: FeedPage; isComplete: boolean }> {
  const { scope, since, after, limit, stretch = STRETCH } = query;
  const before = isDistributed() ? await readMoment(db) : undefined;
  const values = [scope.organizationId, scope.projectId, after?.projectId, after?.monitorKey];
  // One more than the page has: it says whether there is a next one.
  const { size, isUsual } = sizeFor(limit + 1);
  const [moment, columns, joined] = before
    ? ['', '', '']
    : [`, moment as materialized (${MOMENT})`, 'moment.*, ', ' cross join moment'];
  const text = `${WITH_CLOCK}, ${ctes(size, stretch)}${moment}
     select log.*, ${columns}r.*
     from log${joined} left join (
       select ${RECORD_COLUMNS}, page.changed_xid::text::bigint as change_sequence, ${ACTION} as action
       ${RECORD_FROM} join page on page.project_id = m.project_id and page.monitor_key = m.monitor_key) r on true
     order by r.project_id, r.monitor_key`;
  const { rows } = await db.query<FeedColumns>({
    name: isUsual && stretch === STRETCH ? `${name}-${size}` : undefined,
    text,
    values: since
      ? [...values, ...[since, before?.snapshot].flatMap((it) => (it ? snapshotText(it) : []))]
      : values,
  });
  const [first] = rows;
  if (!first) throw new Error('The database answered without a snapshot.');
  return { page: toPage(rows, first, before ?? toMoment(first), limit), isComplete: first.is_complete };
}

function toPage(rows: FeedColumns[], first: FeedColumns, moment: FeedMoment, limit: number): FeedPage {
  const found = rows.filter((row) => row.monitor_key !== null);
  const items = found.slice(0, limit).map((row) => ({
    monitor: toMonitorRecord(row),
    changeSequence: row.change_sequence,
    action: row.action ?? undefined,
  }));
  return { ...moment, items, next: found.length > limit ? refOf(items.at(-1)) : endOf(first) };
}

function refOf(item: FeedItem | undefined): MonitorRef | undefined {
  return item && { projectId: item.monitor.projectId, monitorKey: item.monitor.monitorKey };
}

function endOf({
  end_project_id: projectId,
  end_monitor_key: monitorKey,
}: FeedColumns): MonitorRef | undefined {
  return projectId && monitorKey ? { projectId, monitorKey } : undefined;
}
