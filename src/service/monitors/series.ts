// The series of a monitor: from hours that are summed up, and from single observations where those are younger or finer.
import { type FindPlan, findPlan as findBuiltInPlan, type Plan } from '../../domain/plan.ts';
import { keptObservations } from '../../domain/retention.ts';
import {
  addSums,
  isFine,
  planSeries,
  type SeriesClock,
  type SeriesPlan,
  type Span,
  type Sums,
} from '../../domain/series.ts';
import { nearestWritable } from '../../domain/timestamp.ts';
import { cutStretch, findLargeStretch, MOST_READ } from '../../store/beats/observation-stretch.ts';
import {
  type BucketSums,
  readHours,
  readObservationSums,
  readSummedUntil,
  type SumsQuery,
} from '../../store/beats/observation-sums.ts';
import { findDeletedUntil, findReceivedMs } from '../../store/beats/observations-read.ts';
import type { MonitorRef } from '../../store/monitors/live.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { MonitorName } from '../../store/monitors/monitors.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { findMonitor } from './monitor-access.ts';

export interface SeriesRequest extends Span {
  measurement: string;
  /** Undefined: what fits the span. */
  bucketSeconds: number | undefined;
}

export interface SeriesBucket extends Span {
  /** Undefined: no value. */
  sums: Sums | undefined;
}

/** Buckets are in the order of time, without gaps. Throws `not_found`, `conflict`, `validation_failed` and `plan_limit_reached`. */
export async function readSeries(
  db: Queryable,
  name: MonitorName,
  request: SeriesRequest,
  findPlan: FindPlan = findBuiltInPlan,
): Promise<{ bucketSeconds: number; buckets: SeriesBucket[] }> {
  const ref = await findMonitor(db, name);
  // Before the rest: what is summed up at this moment stays so, and observations after it are there.
  const summed = await readSummedUntil(db);
  const clock = { ...summed, ...(await readKept(db, ref, findPlan(ref.planId), summed)) };
  const { bucketSeconds, parts } = await plan(db, ref, request, clock);
  const known = new Map<number, Sums>();
  for (const { source, fromMs, toMs } of parts) {
    const query = { ref, measurement: request.measurement, bucketSeconds, fromMs, toMs };
    if (source === 'hours') addAll(known, await readHours(db, query));
    else await addObservations(db, query, clock.summedMs, known);
  }
  return { bucketSeconds, buckets: fill(request, bucketSeconds * 1000, known) };
}

/**
 * Which observations there are. Only a monitor with more of them than the plan keeps is asked for the first that it keeps.
 */
async function readKept(
  db: Queryable,
  monitor: MonitorRecord,
  ofOrganization: Plan,
  { summedMs }: Pick<SeriesClock, 'summedMs'>,
): Promise<Pick<SeriesClock, 'plan' | 'firstStoredMs' | 'firstLeftMs'>> {
  const { lastSequence } = monitor.live;
  const { fromMs, fromSequence } = keptObservations(ofOrganization, { nowMs: monitor.nowMs, lastSequence });
  const firstStoredMs =
    fromSequence > 1
      ? await findReceivedMs(db, monitor, { sequence: fromSequence, sinceMs: fromMs })
      : undefined;
  const firstLeftMs = await findDeletedUntil(db, monitor, { sinceMs: fromMs, summedMs });
  return { plan: ofOrganization, firstStoredMs, firstLeftMs };
}

/** Fine buckets are read from observations alone, and so no more of these than one statement reads. */
async function plan(
  db: Queryable,
  ref: MonitorRef,
  request: SeriesRequest,
  clock: SeriesClock,
): Promise<SeriesPlan> {
  const series = planSeries(request, request.bucketSeconds, clock);
  if (!isFine(series.bucketSeconds)) return series;
  const stretch = await findLargeStretch(db, ref, request);
  const hasTooMany = stretch !== undefined && stretch.to - stretch.from > MOST_READ;
  return hasTooMany ? planSeries(request, request.bucketSeconds, clock, hasTooMany) : series;
}

type KnownSums = Map<number, Sums>;

async function addObservations(
  db: Queryable,
  query: SumsQuery,
  summedMs: number,
  known: KnownSums,
): Promise<void> {
  const stretch = await findLargeStretch(db, query.ref, query);
  const pieces = stretch ? cutStretch(stretch) : [undefined];
  for (const piece of pieces)
    addAll(known, await readObservationSums(db, { ...query, stretch: piece, summedMs }));
}

function addAll(known: KnownSums, found: BucketSums): void {
  for (const [bucket, sums] of found) {
    const before = known.get(bucket);
    known.set(bucket, before ? addSums(before, sums) : sums);
  }
}

function fill({ fromMs, toMs }: Span, bucketMs: number, known: ReadonlyMap<number, Sums>): SeriesBucket[] {
  const buckets: SeriesBucket[] = [];
  for (let bucket = Math.floor(fromMs / bucketMs); bucket * bucketMs < toMs; bucket += 1) {
    buckets.push({
      fromMs: nearestWritable(bucket * bucketMs),
      toMs: nearestWritable((bucket + 1) * bucketMs),
      sums: known.get(bucket),
    });
  }
  return buckets;
}
