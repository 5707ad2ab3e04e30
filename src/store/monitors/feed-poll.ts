// Whether the status feed has anything new for calls that are held open: one query for all of them, which reads no live
// row.
import { isDistributed } from '../postgres/engine.ts';
import type { Queryable } from '../postgres/pool.ts';
import {
  type FeedMoment,
  MOMENT,
  type MomentColumns,
  presentSnapshot,
  readMoment,
  snapshotText,
  toMoment,
} from './feed-moment.ts';
import { FLOOR, readLog, readPassedByFloor } from './live-changes.ts';
import type { FeedScope, Snapshot } from './status-feed.ts';

/** Of the records of all projects. Past this every call answers, and its page finds out what is new to it. */
const MOST = { records: 20_000, keys: 100_000 };

/**
 * A scope is a project or an organization, by its hash: an equal one answers a call too early, which does no harm. The
 * newest change of a scope answers for all but the transactions that ran in the subject's snapshot. These few are looked
 * up by themselves.
 */
const haveChangedSql = () => `with waiting as materialized (
    select n, since, project_id is null as is_whole, organization_id, uuid_hash(coalesce(project_id, organization_id)) as hash,
      pg_snapshot_xmin(since) >= ${FLOOR} as is_kept
    from unnest($1::uuid[], $2::uuid[], $3::pg_snapshot[]) with ordinality as w (organization_id, project_id, since, n)),
  ${readLog({
    from: '(select pg_snapshot_xmax(since) from waiting where is_kept order by 1 limit 1)',
    running: 'select pg_snapshot_xip(since) from waiting where is_kept',
    isKept: 'exists (select from waiting where is_kept)',
    present: presentSnapshot('$4'),
    most: MOST,
  })},
  projects_touched as materialized (
    select distinct k.hash, c.changed_xid as xid
    from log join recent c on log.is_complete cross join lateral unnest(c.project_hashes) as k (hash)),
  touched as materialized (
    select * from projects_touched
    union all
    select distinct uuid_hash(p.organization_id), t.xid
    from projects p join projects_touched t on t.hash = uuid_hash(p.project_id)
    where p.organization_id in (select organization_id from waiting where is_whole)),
  newest as materialized (select hash, max(xid) as xid from touched group by hash)
  select ${isDistributed() ? '' : 'moment.*, '}array (
    select n::integer from waiting, log where not (is_kept and log.is_complete)
    union
    select w.n::integer from waiting w join newest t on t.hash = w.hash where t.xid >= pg_snapshot_xmax(w.since)
    union
    select w.n::integer from waiting w cross join lateral pg_snapshot_xip(w.since) as running (xid)
    join touched t on t.hash = w.hash and t.xid = running.xid) as changed
  ${isDistributed() ? '' : `from (${MOMENT}) moment`}`;

/**
 * For each subject whether something may have changed in its scope since its snapshot, and the moment of the answer: what
 * has not changed in the one of its subject has not changed in this one either.
 */
export async function haveChanged(
  db: Queryable,
  subjects: readonly { scope: FeedScope; since: Snapshot }[],
): Promise<{ changed: boolean[]; moment: FeedMoment }> {
  const before = isDistributed() ? await readMoment(db) : undefined;
  const { rows } = await db.query<MomentColumns & { changed: number[] }>({
    name: 'have-changed',
    text: haveChangedSql(),
    values: [
      subjects.map(({ scope }) => scope.organizationId),
      subjects.map(({ scope }) => scope.projectId),
      subjects.map(({ since }) => snapshotText(since)),
      ...(before ? [snapshotText(before.snapshot)] : []),
    ],
  });
  const [first] = rows;
  if (!first) throw new Error('The database answered without a snapshot.');
  const changed = new Set(first.changed);
  const isPassed = await readPassedByFloor(db);
  return {
    changed: subjects.map(({ since }, index) => changed.has(index + 1) || isPassed(since)),
    moment: before ?? toMoment(first),
  };
}
