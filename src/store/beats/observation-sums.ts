// Sums of observations: SQL that sums up a measurement, or the gaps between beats, and the reads of a series
// (domain/series.ts). The sweeper keeps the sums of each hour (store/upkeep/observation-hours.ts).
import { BEAT_GAP, HOUR_MS, type Span, type Sums } from '../../domain/series.ts';
import type { MonitorRef } from '../monitors/live.ts';
import { fromMillis, millis, NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import type { Stretch } from './observation-stretch.ts';

/** The beats from which deadlines count: gaps are between them. */
export const COUNTED = `kind in ('success', 'fail')`;

/** SQL: the seconds from the column `before` to `received_at`. The clock may have been set back; a first beat has no gap. */
export const GAP_SECONDS =
  'case when before is not null then greatest(0, extract(epoch from received_at - before)) end';

// The type numeric takes every number that a beat may have, and their sum; a double has no room for the smallest means.
const asDouble = (numeric: string) =>
  `(case when abs(${numeric}) < 1e-300 then 0 else ${numeric} end)::double precision`;

const within = (mean: string, minimum: string, maximum: string) =>
  `least(${maximum}, greatest(${minimum}, ${mean}))`;

/** SQL: the columns of Sums over a numeric value. */
export const sumUp = (value: string) => `count(${value}) as count, min(${value})::double precision as minimum,
  max(${value})::double precision as maximum, ${within(
    asDouble(`avg(${value})`),
    `min(${value})::double precision`,
    `max(${value})::double precision`,
  )} as mean`;

// As text, because the type numeric takes 15 digits of a double: rounded up, the greatest ones are none any more.
const ADD_UP = `sum(count)::bigint as count, min(minimum) as minimum, max(maximum) as maximum,
  ${within(asDouble('(sum(mean::text::numeric * count) / sum(count))'), 'min(minimum)', 'max(maximum)')} as mean`;

/** SQL: the assignments that add the sums of the row `other` to those of `one`. Either may be empty. */
export function addToSums(one: string, other: string): string {
  const total = (row: string) => `coalesce(${row}.mean::text::numeric, 0) * ${row}.count`;
  const count = `${one}.count + ${other}.count`;
  const minimum = `least(${one}.minimum, ${other}.minimum)`;
  const maximum = `greatest(${one}.maximum, ${other}.maximum)`;
  const mean = asDouble(`((${total(one)} + ${total(other)}) / nullif(${count}, 0))`);
  return `count = ${count}, minimum = ${minimum}, maximum = ${maximum}, mean = ${within(mean, minimum, maximum)}`;
}

/**
 * SQL: when the last beat before `at` came that the hours before it know of. Nearly always it is one since the day before
 * `near`: further back each month would be asked.
 */
export function lastBeatBefore(
  { projectId, monitorKey }: MonitorRef,
  { at, near }: { at: string; near: string },
): string {
  const since = (days: number) => `(select b.last_at from observation_buckets b
    where b.project_id = ${projectId} and b.monitor_key = ${monitorKey} and b.measurement = '${BEAT_GAP}'
      and b.last_at is not null and b.bucket_start < ${at} and b.bucket_start >= ${near} - ${days} * interval '24 hours'
    order by b.bucket_start desc limit 1)`;
  return `coalesce(${since(1)}, ${since(400)})`;
}

/** The clock, and up to which moment hours are summed up. */
export async function readSummedUntil(db: Queryable): Promise<{ nowMs: number; summedMs: number }> {
  const { rows } = await db.query<{ now_ms: number; day_ms: number }>(
    `select ${NOW_MS} as now_ms, ${millis('day')} as day_ms from observation_sums`,
  );
  const [row] = rows;
  if (!row) throw new Error('The database does not say how far observations are summed up.');
  return { nowMs: row.now_ms, summedMs: row.day_ms };
}

const bucketOf = (at: string, seconds: string) => `${millis(at)} / (${seconds}::bigint * 1000)`;

/** What to read, and in buckets of which length. */
export interface SumsQuery extends Span {
  ref: MonitorRef;
  measurement: string;
  bucketSeconds: number;
}

/** Of single observations. `stretch`: only these sequences. */
export interface ObservationsQuery extends SumsQuery {
  stretch: Stretch | undefined;
  /** The beat before the first one may be in an hour that is summed up before this moment. */
  summedMs: number;
}

/** Sums by the number of their bucket since 1970. Empty buckets have none. */
export type BucketSums = [bucket: number, sums: Sums][];

interface SumsRow extends Sums {
  bucket: number;
}

const toBucketSums = (rows: readonly SumsRow[]): BucketSums =>
  rows.map(({ bucket, ...sums }) => [bucket, sums]);

/** From hours that are summed up: `fromMs` and `toMs` are whole hours. */
export async function readHours(db: Queryable, query: SumsQuery): Promise<BucketSums> {
  const { rows } = await db.query<SumsRow>({
    name: 'read-observation-hours',
    text: `select ${bucketOf('bucket_start', '$4')} as bucket, ${ADD_UP} from observation_buckets
      where project_id = $1 and monitor_key = $2 and measurement = $3 and count > 0
        and bucket_start >= ${fromMillis('$5')} and bucket_start < ${fromMillis('$6')}
      group by 1`,
    values: valuesOf(query),
  });
  return toBucketSums(rows);
}

export async function readObservationSums(db: Queryable, query: ObservationsQuery): Promise<BucketSums> {
  const { ref, measurement, bucketSeconds, fromMs, toMs, stretch = ALL, summedMs } = query;
  if (measurement !== BEAT_GAP) {
    const { rows } = await db.query<SumsRow>({
      name: 'sum-up-measurement',
      text: MEASUREMENT,
      values: [...valuesOf(query), stretch.from, stretch.to],
    });
    return toBucketSums(rows);
  }
  const hoursMs = Math.min(summedMs, fromMs - (fromMs % HOUR_MS));
  const { rows } = await db.query<SumsRow>({
    name: 'sum-up-gaps',
    text: GAPS,
    values: [
      ...[ref.projectId, ref.monitorKey, bucketSeconds, fromMs, toMs, hoursMs],
      ...[stretch.from, stretch.to],
      // The beat before a stretch is found by its sequence, that before all observations of the span by its time.
      ...(stretch === ALL ? [ALL.to, fromMs] : [stretch.from, toMs]),
    ],
  });
  return toBucketSums(rows);
}

const ALL: Stretch = { from: 0, to: Number.MAX_SAFE_INTEGER };

function valuesOf({ ref, measurement, bucketSeconds, fromMs, toMs }: SumsQuery): unknown[] {
  return [ref.projectId, ref.monitorKey, measurement, bucketSeconds, fromMs, toMs];
}

const ofSpan = (from: string, to: string) => `project_id = $1 and monitor_key = $2
  and received_at >= ${fromMillis(from)} and received_at < ${fromMillis(to)}`;

const MEASUREMENT = `select ${bucketOf('received_at', '$4')} as bucket, ${sumUp('value')}
  from (
    select received_at, (measurements ->> $3)::numeric as value from observations
    where ${ofSpan('$5', '$6')} and sequence >= $7 and sequence < $8 and measurements ? $3) measured
  group by 1`;

const BEFORE = `coalesce(
  (select received_at from observations
    where ${ofSpan('$6', '$10')} and sequence < $9 and ${COUNTED} order by sequence desc limit 1),
  ${lastBeatBefore({ projectId: '$1', monitorKey: '$2' }, { at: fromMillis('$6'), near: fromMillis('$6') })})`;

const GAPS = `with beats as (
    select received_at, coalesce(lag(received_at) over (order by sequence), ${BEFORE}) as before
    from observations where ${ofSpan('$4', '$5')} and sequence >= $7 and sequence < $8 and ${COUNTED}),
  gaps as (select received_at, ${GAP_SECONDS} as value from beats)
  select ${bucketOf('received_at', '$3')} as bucket, ${sumUp('value')} from gaps where value is not null group by 1`;
