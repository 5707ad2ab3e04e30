// Which sequences the observations of a span have, without reading them: there is no index by time, but sequences have
// no gaps and grow with time.
import type { Span } from '../../domain/series.ts';
import type { MonitorRef } from '../monitors/live.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

/** From a sequence on, and up to another one, which is excluded. */
export interface Stretch {
  from: number;
  to: number;
}

/** docs/contract/beats.md. A read of this many takes a small part of a second. Fine buckets are of no more, and hours are added up from pieces. */
export const MOST_READ = 200_000;

/** Days are partitions: to find one of these rows nothing else is read. */
const OF_DAYS = `project_id = $1 and monitor_key = $2
  and received_at >= date_trunc('day', ${fromMillis('$3')}, 'UTC')
  and received_at < date_trunc('day', ${fromMillis('$4')} - interval '1 millisecond', 'UTC') + interval '24 hours'`;

const ends = (order: 'asc' | 'desc') =>
  `(select sequence from observations where ${OF_DAYS} order by sequence ${order} limit 1)`;

const DAYS = `select coalesce(${ends('asc')}, 0)::bigint as "from", coalesce(${ends('desc')} + 1, 0)::bigint as "to"`;

/** Undefined where all days (UTC) that the span touches have at most MOST_READ together: those are read by time. */
export async function findLargeStretch(
  db: Queryable,
  ref: MonitorRef,
  span: Span,
): Promise<Stretch | undefined> {
  const days = await findDays(db, ref, span);
  return days.to - days.from > MOST_READ ? await findSpan(db, ref, span, days) : undefined;
}

/** A stretch in pieces of at most MOST_READ. */
export function cutStretch({ from, to }: Stretch): Stretch[] {
  return Array.from({ length: Math.ceil((to - from) / MOST_READ) }, (_, index) => {
    const start = from + index * MOST_READ;
    return { from: start, to: Math.min(start + MOST_READ, to) };
  });
}

async function findDays(db: Queryable, ref: MonitorRef, span: Span): Promise<Stretch> {
  return await findOne(db, 'find-observations-of-days', DAYS, [
    ref.projectId,
    ref.monitorKey,
    span.fromMs,
    span.toMs,
  ]);
}

// Each step halves what is left: the first sequence that is not before the moment is at or after `low`, before `high`.
const HALVES = `with recursive halves (at, low, high) as (
    select v.at, $5::bigint, $6::bigint from (values (${fromMillis('$3')}), (${fromMillis('$4')})) v (at)
    union all
    select at, case when is_before then middle + 1 else low end, case when is_before then high else middle end
    from (
      select h.*, (h.low + h.high) / 2 as middle, coalesce((select o.received_at < h.at from observations o
        where ${OF_DAYS} and sequence = (h.low + h.high) / 2 limit 1), false) as is_before
      from halves h where h.low < h.high) h)
  select coalesce(min(low) filter (where at = ${fromMillis('$3')}), 0)::bigint as "from",
    coalesce(min(low) filter (where at = ${fromMillis('$4')}), 0)::bigint as "to"
  from halves where low >= high`;

/** The span itself, within its days. Beats that came while the clock was set back may be missed. */
async function findSpan(
  db: Queryable,
  ref: MonitorRef,
  { fromMs, toMs }: Span,
  days: Stretch,
): Promise<Stretch> {
  return await findOne(db, 'find-observations-of-span', HALVES, [
    ref.projectId,
    ref.monitorKey,
    fromMs,
    toMs,
    days.from,
    days.to,
  ]);
}

async function findOne(db: Queryable, name: string, text: string, values: unknown[]): Promise<Stretch> {
  const { rows } = await db.query<Stretch>({ name, text, values });
  return rows[0] ?? { from: 0, to: 0 };
}
