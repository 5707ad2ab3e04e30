// The series of a monitor: from hours that are summed up, and from single observations where those are younger or finer.
import { addSums, planSeries, type Span, type Sums } from '../../domain/series.ts';
import { nearestWritable } from '../../domain/timestamp.ts';
import { readHours, readObservationSums, readSummedUntil } from '../../store/beats/observation-sums.ts';
import type { MonitorName } from '../../store/monitors/monitors.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { findMonitorRef } from './monitor-access.ts';

export interface SeriesRequest extends Span {
  measurement: string;
  /** Undefined: what fits the span. */
  bucketSeconds: number | undefined;
}

export interface SeriesBucket extends Span {
  /** Undefined: no value. */
  sums: Sums | undefined;
}

/** Buckets are in the order of time, without gaps. Throws `not_found`, `conflict` and `validation_failed`. */
export async function readSeries(
  db: Queryable,
  name: MonitorName,
  request: SeriesRequest,
): Promise<{ bucketSeconds: number; buckets: SeriesBucket[] }> {
  const ref = await findMonitorRef(db, name);
  // Before the rest: what is summed up at this moment stays so, and observations after it are there.
  const clock = await readSummedUntil(db);
  const { bucketSeconds, parts } = planSeries(request, request.bucketSeconds, clock);
  const known = new Map<number, Sums>();
  for (const { source, fromMs, toMs } of parts) {
    const query = { ref, measurement: request.measurement, bucketSeconds, fromMs, toMs };
    const found =
      source === 'hours' ? await readHours(db, query) : await readObservationSums(db, query, clock.summedMs);
    for (const [bucket, sums] of found) {
      const before = known.get(bucket);
      known.set(bucket, before ? addSums(before, sums) : sums);
    }
  }
  return { bucketSeconds, buckets: fill(request, bucketSeconds * 1000, known) };
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
