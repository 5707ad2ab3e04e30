// Claims monitors whose wake time has passed: late mark, deadline, overdue run, end of a window. Lock order: a claim
// skips rows that are locked and waits for none, so it is part of no deadlock; later writes belong to the claimed rows.

import { type Bind, sql, statement } from '../postgres/columns.ts';
import { inShard, isDistributed } from '../postgres/engine.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { readShards } from '../postgres/shards.ts';
import { readNow } from '../postgres/transaction.ts';
import {
  LIVE_COLUMNS,
  LIVE_STATE,
  type LiveRow,
  MONITOR_REF,
  type MonitorRef,
  SWEEP_BUCKETS,
  toLiveRow,
} from './live.ts';

export interface DueClaim {
  /** Rows at most. */
  limit: number;
  /**
   * Only wake times after this one, ms. An old snapshot elsewhere keeps dead entries in the index, and each scan from
   * the beginning reads all of them (docs/adr/0002). Undefined: from the beginning.
   */
  sinceMs?: number;
  /** The first bucket of the scan. Callers change it each time, so that no bucket is always the last. */
  firstBucket: number;
}

/** The wake times that a poll or a claim covered. */
export interface DueSpan {
  /** The database's clock, before the scan. */
  nowMs: number;
  /** Every beat that reached an api before it is committed or excused; undefined before the first api ran. */
  horizonMs?: number;
  /** Every due row up to this wake time was found, if there were fewer than `limit`. */
  uptoMs: number;
}

export interface DueMonitors extends DueSpan {
  rows: LiveRow[];
}

interface MomentColumns {
  now_ms: number;
  horizon_ms: number | null;
  upto_ms: number;
}

// The horizon is that of the api that is furthest behind. If all have ended, no beat is open, and the last one counts.
const MOMENT = `moment as materialized (
    select n.now_ms, h.horizon_ms, least(n.now_ms, h.horizon_ms) as upto_ms
    from (select ${NOW_MS} as now_ms) n,
      (select coalesce(
        (select min(decided_ms) from service_clock where not ended),
        (select max(decided_ms) from service_clock)) as horizon_ms) h)`;

/** The moment alone, where it and the rows are read in two statements, in this order. On Citus they are not in one place. */
export async function readMoment(db: Queryable): Promise<DueSpan> {
  const { rows } = await db.query<MomentColumns>({
    name: 'read-moment',
    text: `with ${MOMENT} select * from moment`,
  });
  const [first] = rows;
  if (!first) throw new Error('The poll for due monitors returned no time.');
  return toSpan(first);
}

/** The projects of a shard that have due monitors. */
export interface DueShard extends DueSpan {
  projectIds: readonly string[];
}

export interface DueShards extends DueSpan {
  shards: DueShard[];
  /** As many monitors as the claim may take: more may be due. */
  isFull: boolean;
}

/** On Citus: where the next `limit` due monitors are. Locks nothing. Shards in another order for each `firstBucket`. */
export async function findDueShards(db: Queryable, claim: DueClaim): Promise<DueShards> {
  const span = await readMoment(db);
  if (span.horizonMs === undefined) return { ...span, shards: [], isFull: false };
  const { rows } = await db.query<{ project_id: string }>({
    name: 'find-due-shards',
    text: `select l.project_id from monitor_live l
      where l.sweep_bucket = any ($1::smallint[]) and l.wake_ms > $2 and l.wake_ms <= $3
      order by l.wake_ms limit $4`,
    values: [ALL_BUCKETS, claim.sinceMs ?? -1, span.uptoMs, claim.limit],
  });
  const projects = await readShards(
    db,
    rows.map((row) => row.project_id),
  );
  const byShard = Map.groupBy(projects.keys(), (projectId) => projects.get(projectId));
  const shards = [...byShard.values()].map((projectIds) => ({ ...span, projectIds }));
  const turn = shards.length === 0 ? 0 : claim.firstBucket % shards.length;
  return {
    ...span,
    shards: [...shards.slice(turn), ...shards.slice(0, turn)],
    isFull: rows.length === claim.limit,
  };
}

/** Locks due rows of these projects, all in one shard, that nobody else holds. */
export async function claimDueInShard(
  tx: Queryable,
  { projectIds, ...span }: DueShard,
  claim: DueClaim,
): Promise<DueMonitors> {
  const { rows } = await tx.query({
    name: 'claim-due-in-shard',
    text: `select ${LIVE_COLUMNS} from monitor_live l
      where l.project_id = any ($1::uuid[]) and l.sweep_bucket = any ($2::smallint[])
        and l.wake_ms > $3 and l.wake_ms <= $4
      order by l.wake_ms limit $5 for update skip locked`,
    values: [projectIds, ALL_BUCKETS, claim.sinceMs ?? -1, span.uptoMs, claim.limit],
  });
  return { ...span, rows: rows.map(toLiveRow) };
}

async function findDueAnywhere(
  db: Queryable,
  sinceMs: number | undefined,
): Promise<DueSpan & { isDue: boolean }> {
  const { shards, isFull: _, ...span } = await findDueShards(db, { limit: 1, sinceMs, firstBucket: 0 });
  return { ...span, isDue: shards.length > 0 };
}

/** Whether anything may be due after `sinceMs`. Costs a third of an empty claim, and neither transaction nor lock. */
export async function findDue(
  db: Queryable,
  sinceMs: number | undefined,
): Promise<DueSpan & { isDue: boolean }> {
  if (isDistributed()) return await findDueAnywhere(db, sinceMs);
  const { rows } = await db.query<MomentColumns & { is_due: boolean }>({
    name: 'find-due',
    text: `with ${MOMENT}
      select moment.*, moment.horizon_ms is not null and exists (
        select from monitor_live l
        where l.sweep_bucket = any ($1::smallint[]) and l.wake_ms > $2 and l.wake_ms <= moment.upto_ms) as is_due
      from moment`,
    values: [ALL_BUCKETS, sinceMs ?? -1],
  });
  const [first] = rows;
  if (!first) throw new Error('The poll for due monitors returned no time.');
  return { ...toSpan(first), isDue: first.is_due };
}

const ALL_BUCKETS = Array.from({ length: SWEEP_BUCKETS }, (_, bucket) => bucket);

function toSpan(row: MomentColumns): DueSpan {
  return { nowMs: row.now_ms, horizonMs: row.horizon_ms ?? undefined, uptoMs: row.upto_ms };
}

// One index scan per bucket (monitor_live_wake), each in the order of time; the outer limit stops at the first buckets
// when much is due. A row that changed before its lock is checked again under the lock: the beat wins.
const CLAIM = `with ${MOMENT},
  due as materialized (
    select d.* from moment
    cross join generate_series(0, ${SWEEP_BUCKETS - 1}) as b (place)
    cross join lateral (
      select ${LIVE_COLUMNS} from monitor_live l
      where l.sweep_bucket = ((b.place + $1) % ${SWEEP_BUCKETS})::smallint
        and l.wake_ms > $2 and l.wake_ms <= moment.upto_ms and moment.horizon_ms is not null
      order by l.wake_ms
      limit $3
      for update skip locked) d
    limit $3)
  select moment.now_ms, moment.horizon_ms, moment.upto_ms, due.* from moment left join due on true`;

/** Locks due rows that nobody else holds, and reads the clock and the horizon, in one round trip. */
export async function claimDueMonitors(tx: Queryable, claim: DueClaim): Promise<DueMonitors> {
  const { rows } = await tx.query<MomentColumns & { project_id: string | null }>({
    name: 'claim-due-monitors',
    text: CLAIM,
    values: [claim.firstBucket, claim.sinceMs ?? -1, claim.limit],
  });
  const [first] = rows;
  if (!first) throw new Error('The claim of due monitors returned no time.');
  return {
    ...toSpan(first),
    rows: rows.flatMap((row) => (row.project_id === null ? [] : toLiveRow(row))),
  };
}

const WAKE = { ...MONITOR_REF, live: { wakeMs: LIVE_STATE.wakeMs } };
const PUT_OFF = statement(
  'put-off-wakes',
  (bind: Bind<readonly LiveRow[]>) => `update monitor_live l set wake_ms = v.wake_ms, room = null
    from ${sql.unnest(WAKE, bind, (rows) => rows)}
    where l.project_id = v.project_id and l.monitor_key = v.monitor_key${inShard('l', bind, (rows) => rows)}`,
);

/** Writes the wakes alone: nothing that anybody sees has changed, and no status feed hears of it. The rows are locked. */
export async function putOffWakes(tx: Queryable, rows: readonly LiveRow[]): Promise<void> {
  if (rows.length > 0) await tx.query(PUT_OFF(rows));
}

/** Wakes a monitor later: something about it is at fault, and it must not hold up the others. */
export async function postponeWake(db: Queryable, ref: MonitorRef, delayMs: number): Promise<void> {
  await db.query(
    `update monitor_live set wake_ms = $3
     where project_id = $1 and monitor_key = $2 and wake_ms is not null`,
    [ref.projectId, ref.monitorKey, (await readNow(db)) + delayMs],
  );
}
