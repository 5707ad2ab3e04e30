// A series: what a monitor's beats measured, in buckets of time (docs/contract/beats.md). Says which buckets an answer
// has, and from where each part of it is read: observations are kept for days, hours that are summed up for a year.
import { type Plan, planLimitReached, retentionExceeded } from './plan.ts';
import { invalidField } from './problem.ts';
import { DAY_MS, keptFromMs, STANDARD_RETENTION_MS } from './retention.ts';

/** The measurement that every monitor has: seconds from one success or fail to the next. No key of a beat is so written. */
export const BEAT_GAP = 'beatGapSeconds';

export const HOUR_MS = 3_600_000;
/** A year and a day, by hours of six, or less than two days by minutes. */
export const MOST_BUCKETS = 2_000;
const DEFAULT_BUCKETS = 500;
export const MOST_SERIES_DAYS = 365;

/** All parts of a day, so that buckets begin where days do. */
const DEFAULT_SECONDS = [60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400];

/** From a moment on, and up to another one, which is excluded. */
export interface Span {
  fromMs: number;
  toMs: number;
}

/** Numbers of one bucket. An empty one has none. */
export interface Sums {
  count: number;
  minimum: number;
  maximum: number;
  mean: number;
}

export interface SeriesPart extends Span {
  /** Single observations, or whole hours that are summed up. */
  source: 'observations' | 'hours';
}

export interface SeriesPlan {
  bucketSeconds: number;
  /** In the order of time, without gaps between them. */
  parts: SeriesPart[];
}

/** How many buckets of this length a span touches. Buckets begin at whole multiples of their length since 1970, in UTC. */
export function countBuckets({ fromMs, toMs }: Span, bucketSeconds: number): number {
  const bucketMs = bucketSeconds * 1000;
  return Math.ceil(toMs / bucketMs) - Math.floor(fromMs / bucketMs);
}

/** Until when hours are summed up, and which observations are kept as single ones. */
export interface SeriesClock {
  nowMs: number;
  /** Up to there hours are summed up, and observations before it may be dropped. */
  summedMs: number;
  /** Undefined: it keeps as many as any, for as long. */
  plan?: Plan;
  /** Of a monitor that has had more than the plan stores: when the first one that it stores was received. */
  firstStoredMs?: number;
  /** Of a monitor whose first ones are deleted: when the first one that is left was received. */
  firstLeftMs?: number;
}

/**
 * Plans the reading of a span.
 * For buckets that are finer than what is kept throws `plan_limit_reached` where a larger plan keeps it, else
 * `validation_failed`, as for buckets that are finer than so many observations may have.
 */
export function planSeries(
  span: Span,
  wanted: number | undefined,
  clock: SeriesClock,
  hasTooMany = false,
): SeriesPlan {
  const { nowMs, summedMs, plan, firstStoredMs = 0, firstLeftMs = 0 } = clock;
  const dayMs = keptFromMs(nowMs, retentionMsOf(plan));
  const firstMs = ceilTo(Math.max(firstStoredMs, firstLeftMs), HOUR_MS);
  const keptMs = Math.min(Math.max(dayMs, firstMs), summedMs);
  const isOld = span.fromMs < keptMs;
  const bucketSeconds = wanted ?? defaultSeconds(span, isOld || hasTooMany ? HOUR_MS / 1000 : 0);
  if (!isFine(bucketSeconds)) return { bucketSeconds, parts: planHours(span, keptMs, summedMs) };
  if (isOld && plan) requirePlan(plan, span, clock);
  if (isOld && span.fromMs < dayMs)
    throw tooFine(`since is more than ${STANDARD_RETENTION_MS / DAY_MS} days ago`, 'kept for so long');
  if (isOld) throw tooFine('since is before the observations that are kept', 'kept for so long');
  if (hasTooMany) throw tooFine('the monitor has so many beats between since and until', 'summed up');
  return { bucketSeconds, parts: [{ source: 'observations', ...span }] };
}

const retentionMsOf = (plan: Plan | undefined) =>
  plan ? plan.observationRetentionSeconds * 1000 : STANDARD_RETENTION_MS;

/** Throws `plan_limit_reached` where it is the plan that does not keep what the span begins with. */
function requirePlan(plan: Plan, { fromMs }: Span, { nowMs, firstStoredMs = 0 }: SeriesClock): void {
  if (fromMs < keptFromMs(nowMs, STANDARD_RETENTION_MS)) return;
  if (fromMs < keptFromMs(nowMs, retentionMsOf(plan)))
    throw planLimitReached(plan, retentionExceeded(plan, nowMs - fromMs), 'bucketSeconds');
  if (fromMs < ceilTo(firstStoredMs, HOUR_MS)) {
    const exceeded = { dimension: 'stored_observations', limit: plan.storedObservations } as const;
    throw planLimitReached(plan, exceeded, 'bucketSeconds');
  }
}

/** Whether buckets are no whole hours: these alone can be had from hours that are summed up. */
export const isFine = (bucketSeconds: number) => (bucketSeconds * 1000) % HOUR_MS !== 0;

const tooFine = (where: string, are: string) =>
  invalidField(
    'bucketSeconds',
    `Must be a multiple of 3600 where ${where}: only whole hours are ${are}.`,
    'too_fine',
  );

function defaultSeconds(span: Span, atLeast: number): number {
  const fits = (seconds: number) => seconds >= atLeast && countBuckets(span, seconds) <= DEFAULT_BUCKETS;
  return DEFAULT_SECONDS.find(fits) ?? DAY_MS / 1000;
}

/**
 * Whole hours that are summed up, and single observations before and after them. Where those are gone, the hour at the
 * edge counts whole.
 */
function planHours(span: Span, keptMs: number, summedMs: number): SeriesPart[] {
  const edge = (ms: number, inner: typeof floorTo, outer: typeof floorTo) =>
    ms < keptMs ? outer(ms, HOUR_MS) : inner(ms, HOUR_MS);
  const fromMs = edge(span.fromMs, ceilTo, floorTo);
  const toMs = Math.min(edge(span.toMs, floorTo, ceilTo), summedMs);
  if (toMs <= fromMs) return [{ source: 'observations', ...span }];
  const parts: SeriesPart[] = [
    { source: 'observations', fromMs: span.fromMs, toMs: fromMs },
    { source: 'hours', fromMs, toMs },
    { source: 'observations', fromMs: toMs, toMs: span.toMs },
  ];
  return parts.filter((part) => part.fromMs < part.toMs);
}

const floorTo = (ms: number, unitMs: number) => Math.floor(ms / unitMs) * unitMs;
const ceilTo = (ms: number, unitMs: number) => Math.ceil(ms / unitMs) * unitMs;

/** The numbers of two parts of one bucket. */
export function addSums(one: Sums, other: Sums): Sums {
  const count = one.count + other.count;
  const minimum = Math.min(one.minimum, other.minimum);
  const maximum = Math.max(one.maximum, other.maximum);
  // Not a sum that is divided: it may be no finite number.
  const mean = one.mean * (one.count / count) + other.mean * (other.count / count);
  return { count, minimum, maximum, mean: Math.min(maximum, Math.max(minimum, mean)) };
}
