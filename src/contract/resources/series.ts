// A series: the numbers of a monitor's beats in buckets of time (docs/contract/beats.md).
import { z } from 'zod';
import { BEAT_GAP, countBuckets, MOST_BUCKETS, MOST_SERIES_DAYS } from '../../domain/series.ts';
import { integer, MAX_SAFE, patterned, timestamp, YEAR_SECONDS } from '../fields/field.ts';

const number = z.number().optional().describe('Absent in an empty bucket.');

export const seriesBucket = z.object({
  startAt: timestamp,
  endAt: timestamp.describe('Excluded. The start of the next bucket.'),
  count: integer(0, MAX_SAFE).describe('How many values it has.'),
  minimum: number,
  maximum: number,
  mean: number,
});

const measurement = patterned(
  new RegExp(`^([a-z][a-z0-9_]{0,63}|${BEAT_GAP})$`),
  64,
  `Must be ${BEAT_GAP}, or the key of a measurement: a lower-case letter, then lower-case letters, digits or "_", at most 64 characters.`,
);

export const series = z.object({
  measurement,
  bucketSeconds: integer(1, YEAR_SECONDS),
  items: z.array(seriesBucket).max(MOST_BUCKETS).describe('Oldest first, without gaps.'),
});
export type Series = z.output<typeof series>;

export const seriesQuery = {
  since: timestamp.describe('From this time on, included.'),
  until: timestamp.describe(
    `Up to this time, excluded. After \`since\`, by at most ${MOST_SERIES_DAYS} days.`,
  ),
  measurement: measurement
    .default(BEAT_GAP)
    .describe(`A key of \`measurements\`, or \`${BEAT_GAP}\`: seconds from one success or fail to the next.`),
  bucketSeconds: integer(1, YEAR_SECONDS)
    .optional()
    .describe(
      `The length of a bucket, for at most ${MOST_BUCKETS} buckets. Buckets begin at whole multiples of it since 1970 in UTC. A multiple of 3600 where \`since\` is more than 30 days ago, or the monitor has more than 200,000 beats in the span. Default: the least of some lengths from a minute to a day that makes at most 500 and may be had.`,
    ),
};

type SeriesRange = { since: string; until: string; bucketSeconds?: number };

/** For `superRefine` of the query. */
export function refuseUnusableRange(query: SeriesRange, context: z.RefinementCtx): void {
  const fault = findFault(query);
  if (!fault) return;
  const [field, code, message] = fault;
  context.addIssue({ code: 'custom', path: [field], message, params: { code } });
}

function findFault({ since, until, bucketSeconds }: SeriesRange): [string, string, string] | undefined {
  const span = { fromMs: Date.parse(since), toMs: Date.parse(until) };
  // Their own faults are named already.
  if (Number.isNaN(span.fromMs) || Number.isNaN(span.toMs)) return undefined;
  if (span.fromMs >= span.toMs) return ['until', 'ends_before_start', 'Must be after since.'];
  if (span.toMs - span.fromMs > MOST_SERIES_DAYS * 86_400_000)
    return ['until', 'too_long', `Must be at most ${MOST_SERIES_DAYS} days after since.`];
  if (bucketSeconds === undefined || bucketSeconds < 1) return undefined;
  if (countBuckets(span, bucketSeconds) <= MOST_BUCKETS) return undefined;
  const message = `Must be greater, or the time from since to until shorter: at most ${MOST_BUCKETS} buckets can be asked for.`;
  return ['bucketSeconds', 'too_many', message];
}
