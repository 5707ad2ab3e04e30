// Sums up observations by hours, before they are dropped: whole days, one after the other, when no transaction can write
// into them any more. So each observation is read once, from the index of its day, and the hours of a monitor's day lie
// side by side: they are cheap to write, and a year of them is cheap to read. A step is one transaction, which also
// writes how far it went: it counts once, whoever takes it, and is taken again if it did not commit.
import { DAY_MS } from '../../domain/retention.ts';
import { BEAT_GAP, HOUR_MS } from '../../domain/series.ts';
import { COUNTED, GAP_SECONDS, lastBeatBefore, sumUp } from '../beats/observation-sums.ts';
import type { MonitorRef } from '../monitors/live.ts';
import { fromMillis, millis } from '../postgres/moments.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';

/**
 * From then on, after the end of a day, the open transactions are waited for. A beat reads the clock at most seconds
 * before its transaction has its id: statements have time limits.
 */
const GRACE = "interval '10 minutes'";

const DAY_HOURS = 24;

export interface StepLimits {
  /** How many monitors a step looks at. */
  monitors: number;
  /** How many observations it sums up. Of a monitor that has more in a day a step takes one hour. */
  observations: number;
}

const LIMITS: StepLimits = { monitors: 1_000, observations: 20_000 };

/** Where statistics are missing Postgres would read a whole day for each monitor. */
const BY_INDEX = ['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin']
  .map((way) => `set local enable_${way} = off`)
  .join('; ');

/** `waiting`: the day is not over, or a transaction may still write into it, or another process takes the step. */
export type StepResult = 'worked' | 'waiting';

/** Takes the next step. */
export async function sumUpStep(
  pool: Pick<Database, 'connect'>,
  limits: StepLimits = LIMITS,
): Promise<StepResult> {
  return await inTransaction(pool, async (tx) => {
    const place = await lockPlace(tx);
    if (place === undefined) return 'waiting';
    if (!place.isClosing) return await beginClosing(tx);
    if (!place.isClosed) return 'waiting';
    await tx.query(BY_INDEX);
    const piece = await findPiece(tx, place, limits);
    if (piece) await sumUpPiece(tx, piece);
    else await beginDay(tx);
    return 'worked';
  });
}

interface Place {
  /** The start of the day. */
  dayMs: number;
  isClosing: boolean;
  isClosed: boolean;
  /** The last monitor, and how many of its hours are done. Undefined at the start of a day. */
  done: (MonitorRef & { hours: number }) | undefined;
}

/**
 * Undefined while the day is not over, and when another process has the row. An id that this cluster has not given out
 * yet is of a dump from another cluster: the day begins to close again.
 */
async function lockPlace(tx: Queryable): Promise<Place | undefined> {
  const { rows } = await tx.query<{
    day_ms: number;
    is_closing: boolean;
    is_closed: boolean;
    done_project_id: string | null;
    done_monitor_key: string;
    done_hours: number;
  }>(
    `select ${millis('day')} as day_ms, coalesce(closing_xid < pg_snapshot_xmax(pg_current_snapshot()), false) as is_closing,
       coalesce(closing_xid <= pg_snapshot_xmin(pg_current_snapshot()), false) as is_closed,
       done_project_id, done_monitor_key, done_hours
     from observation_sums where clock_timestamp() >= day + interval '1 day' + ${GRACE}
     for update skip locked`,
  );
  const [row] = rows;
  if (!row) return undefined;
  const { done_project_id: projectId, done_monitor_key: monitorKey, done_hours: hours } = row;
  const done = projectId === null ? undefined : { projectId, monitorKey, hours };
  return { dayMs: row.day_ms, isClosing: row.is_closing, isClosed: row.is_closed, done };
}

async function beginClosing(tx: Queryable): Promise<StepResult> {
  await tx.query('update observation_sums set closing_xid = pg_current_xact_id()');
  return 'worked';
}

async function beginDay(tx: Queryable): Promise<void> {
  await tx.query(
    `update observation_sums set day = day + interval '1 day', closing_xid = null,
       done_project_id = null, done_monitor_key = null, done_hours = null`,
  );
}

/** Monitors in the order of their keys, and the hours of the day to sum up of them. */
interface Piece {
  refs: readonly MonitorRef[];
  dayMs: number;
  fromHour: number;
  toHour: number;
}

/** Undefined when the day is done. */
async function findPiece(tx: Queryable, place: Place, limits: StepLimits): Promise<Piece | undefined> {
  const { dayMs, done } = place;
  const hourOf = (ref: MonitorRef, hour: number) => ({
    refs: [ref],
    dayMs,
    fromHour: hour,
    toHour: hour + 1,
  });
  if (done && done.hours < DAY_HOURS) return hourOf(done, done.hours);
  const stretch = await findStretch(tx, place, limits);
  const [first] = stretch;
  if (!first) return undefined;
  if (first.observations > limits.observations) return hourOf(first, 0);
  const refs = stretch.slice(0, countWithin(stretch, limits.observations));
  return { refs, dayMs, fromHour: 0, toHour: DAY_HOURS };
}

/** A monitor, and how many observations of the day it has at most: sequences have no gaps. */
type Load = MonitorRef & { observations: number };

/** How many of the first ones have at most so many observations together. */
function countWithin(stretch: readonly Load[], most: number): number {
  let observations = 0;
  const end = stretch.findIndex((load) => {
    observations += load.observations;
    return observations > most;
  });
  return end < 0 ? stretch.length : end;
}

/** So many monitors are looked at first, and then each time so many times more: few have many beats, or many few. */
const FIRST_LOOK = 16;
const LOOK_FACTOR = 4;

/** The next monitors: no more of them than a step may take, and few that it does not take. */
async function findStretch(tx: Queryable, { dayMs, done }: Place, limits: StepLimits): Promise<Load[]> {
  const stretch: Load[] = [];
  for (let look = FIRST_LOOK; stretch.length < limits.monitors; look *= LOOK_FACTOR) {
    const count = Math.min(look, limits.monitors - stretch.length);
    const found = await readLoads(tx, stretch.at(-1) ?? done, dayMs, count);
    stretch.push(...found);
    if (found.length < count || countWithin(stretch, limits.observations) < stretch.length) break;
  }
  return stretch;
}

/** Of the monitors that come after this one. */
async function readLoads(
  tx: Queryable,
  after: MonitorRef | undefined,
  dayMs: number,
  limit: number,
): Promise<Load[]> {
  const sequence = (order: 'asc' | 'desc') => `(select o.sequence from observations o
    where o.monitor_key = m.monitor_key and ${within('$4', '$5')} order by o.sequence ${order} limit 1)`;
  const { rows } = await tx.query<{ project_id: string; monitor_key: string; observations: number }>(
    `select m.project_id, m.monitor_key,
       coalesce(${sequence('desc')} - ${sequence('asc')} + 1, 0)::bigint as observations
     from (
       select project_id, monitor_key from monitors where (project_id, monitor_key) > ($1, $2)
       order by project_id, monitor_key limit $3) m`,
    [after?.projectId ?? NO_UUID, after?.monitorKey ?? NO_UUID, limit, dayMs, dayMs + DAY_MS],
  );
  return rows.map((row) => ({
    projectId: row.project_id,
    monitorKey: row.monitor_key,
    observations: row.observations,
  }));
}

const within = (from: string, to: string) =>
  `o.received_at >= ${fromMillis(from)} and o.received_at < ${fromMillis(to)}`;

/** Before all others. */
const NO_UUID = '00000000-0000-0000-0000-000000000000';

// An hour without a success or fail has no row of gaps. One with the first of them has a row without a gap, which says
// where the next one begins.
const SUM_UP = `with stretch as materialized (
    select project_id, monitor_key from unnest($1::uuid[], $2::uuid[]) as s (project_id, monitor_key)),
  beats as materialized (
    select s.project_id, s.monitor_key, o.sequence, o.received_at, o.kind, o.measurements,
      date_trunc('hour', o.received_at, 'UTC') as bucket_start
    from stretch s, observations o
    where o.monitor_key = s.monitor_key and ${within('$3', '$4')}),
  counted as (
    select *, lag(received_at) over (partition by monitor_key order by sequence) as of_day
    from beats where ${COUNTED}),
  gaps as (
    select project_id, monitor_key, bucket_start, received_at, coalesce(of_day, ${lastBeatBefore(
      fromMillis('$3'),
      { projectId: 'counted.project_id', monitorKey: 'counted.monitor_key' },
    )}) as before
    from counted)
  insert into observation_buckets
    (project_id, monitor_key, measurement, bucket_start, count, minimum, maximum, mean, last_at)
  select project_id, monitor_key, '${BEAT_GAP}', bucket_start, ${sumUp('value')}, max(received_at)
  from (select *, ${GAP_SECONDS} as value from gaps) g group by 1, 2, 4
  union all
  select project_id, monitor_key, measured.key, bucket_start, ${sumUp('value')}, null
  from beats, jsonb_each_text(measurements) as measured (key, text), cast(measured.text as numeric) as value
  group by 1, 2, 3, 4
  order by 1, 2, 3, 4
  on conflict do nothing`;

async function sumUpPiece(tx: Queryable, { refs, dayMs, fromHour, toHour }: Piece): Promise<void> {
  const last = refs.at(-1);
  if (!last) return;
  await tx.query(SUM_UP, [
    refs.map(({ projectId }) => projectId),
    refs.map(({ monitorKey }) => monitorKey),
    dayMs + fromHour * HOUR_MS,
    dayMs + toHour * HOUR_MS,
  ]);
  await tx.query('update observation_sums set done_project_id = $1, done_monitor_key = $2, done_hours = $3', [
    last.projectId,
    last.monitorKey,
    toHour,
  ]);
}
