// Reads observations, newest first; the beat path writes them (beats.ts). The table has a partition for each day: every
// read bounds received_at, so that Postgres opens only the days that it needs.
import type { BeatKind } from '../../domain/beat.ts';
import type { Violation } from '../../domain/rules/state.ts';
import { BEAT_GAP, HOUR_MS } from '../../domain/series.ts';
import type { MonitorRef } from '../monitors/live.ts';
import { type Columns, column, rowReader, sql } from '../postgres/columns.ts';
import { ListQuery } from '../postgres/keyset.ts';
import { fromMillis, millis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { DETAIL, PLAIN } from './beats.ts';

export interface ObservationRecord {
  sequence: number;
  kind: BeatKind;
  receivedMs: number;
  observedMs?: number;
  measurements: Record<string, number>;
  durationSeconds?: number;
  exitStatus?: number;
  message?: string;
  runId?: string;
  late: boolean;
  violations: Violation[];
}

const OBSERVATION: Columns<ObservationRecord> = {
  sequence: PLAIN.sequence,
  kind: PLAIN.kind,
  receivedMs: column.moment('received_at'),
  observedMs: column.moment('observed_at'),
  measurements: column.json('measurements', () => ({})),
  durationSeconds: DETAIL.durationSeconds,
  exitStatus: DETAIL.exitStatus,
  message: DETAIL.message,
  runId: DETAIL.runId,
  late: PLAIN.late,
  violations: column.json('violations', () => []),
};
const toObservationRecord = rowReader(OBSERVATION);

export interface ObservationRange {
  /** Inclusive. */
  sinceMs?: number;
  /** Exclusive. */
  untilMs?: number;
  /** Inclusive. */
  fromSequence?: number;
}

export interface ObservationPosition {
  sequence: number;
  receivedMs: number;
}

/**
 * Sequences of a monitor grow with time, unless the database's clock is set back. So the position of the page before
 * bounds only the days, with this slack; the sequence decides.
 */
const CLOCK_SLACK_MS = 3_600_000;

/** Reads up to `limit` observations, newest first, after the position of the last page. */
export async function listObservations(
  db: Queryable,
  ref: MonitorRef,
  range: ObservationRange,
  page: { limit: number; after?: ObservationPosition },
): Promise<ObservationRecord[]> {
  const { after, limit } = page;
  const query = new ListQuery();
  const where = query.where([
    ['o.project_id = $', ref.projectId],
    ['o.monitor_key = $', ref.monitorKey],
    [`o.received_at >= ${fromMillis('$')}`, range.sinceMs],
    [`o.received_at < ${fromMillis('$')}`, range.untilMs],
    ['o.sequence >= $', range.fromSequence],
    ['o.sequence < $', after?.sequence],
    [`o.received_at < ${fromMillis('$')}`, after && after.receivedMs + CLOCK_SLACK_MS],
  ]);
  const { rows } = await db.query(
    `select ${sql.select(OBSERVATION, 'o')} from observations o ${where}
     order by o.sequence desc limit ${limit}`,
    query.values,
  );
  return rows.map(toObservationRecord);
}

/**
 * The observation of the live row's last sequence. `lastBeatMs` bounds the days to read: only a log is received after
 * the last beat; what came before `keptFromMs` is not shown. Undefined before the first observation, and after retention deleted it.
 */
export async function findLatestObservation(
  db: Queryable,
  ref: MonitorRef,
  last: { sequence: number; lastBeatMs?: number; keptFromMs: number },
): Promise<ObservationRecord | undefined> {
  if (last.sequence === 0) return undefined;
  const { lastBeatMs = 0, keptFromMs } = last;
  const sinceMs = Math.max(lastBeatMs - CLOCK_SLACK_MS, keptFromMs);
  const rows = await listObservations(db, ref, { sinceMs }, { limit: 1 });
  return rows[0];
}

/** Which observation of some kinds, and the first or the last one of a span. */
export interface BeatQuery {
  kinds: readonly BeatKind[];
  /** Inclusive; it bounds the days that are read. */
  sinceMs: number;
  /** Inclusive. */
  untilMs: number;
  order: 'first' | 'last';
}

const PLACE = { sequence: OBSERVATION.sequence, kind: OBSERVATION.kind, receivedMs: OBSERVATION.receivedMs };
export type BeatPlace = Pick<ObservationRecord, keyof typeof PLACE>;
const toBeatPlace = rowReader<BeatPlace>(PLACE);

/** Undefined where none is kept. */
export async function findBeat(
  db: Queryable,
  ref: MonitorRef,
  { kinds, sinceMs, untilMs, order }: BeatQuery,
): Promise<BeatPlace | undefined> {
  const { rows } = await db.query(
    `select ${sql.select(PLACE, 'o')} from observations o
     where o.monitor_key = $1 and o.kind = any($2::text[])
       and o.received_at >= ${fromMillis('$3')} and o.received_at <= ${fromMillis('$4')}
     order by o.sequence ${order === 'first' ? 'asc' : 'desc'} limit 1`,
    [ref.monitorKey, kinds, sinceMs, untilMs],
  );
  return rows.map(toBeatPlace)[0];
}

/** When the observation of a sequence was received, if in the span; else undefined. */
export async function findReceivedMs(
  db: Queryable,
  ref: MonitorRef,
  { sequence, sinceMs, untilMs }: { sequence: number; sinceMs: number; untilMs?: number },
): Promise<number | undefined> {
  const { rows } = await db.query(
    `select ${sql.select(PLACE, 'o')} from observations o where o.project_id = $1 and o.monitor_key = $2
       and o.sequence = $3 and o.received_at >= ${fromMillis('$4')}
       and ($5::bigint is null or o.received_at < ${fromMillis('$5::bigint')}) limit 1`,
    [ref.projectId, ref.monitorKey, sequence, sinceMs, untilMs ?? null],
  );
  return rows.map(toBeatPlace)[0]?.receivedMs;
}

/**
 * Until when the observations of a monitor since `sinceMs` are deleted: a smaller plan may have kept fewer. Undefined: all
 * are there. The hours that are summed up know which there were; nothing after `summedMs` is deleted.
 */
export async function findDeletedUntil(
  db: Queryable,
  ref: MonitorRef,
  { sinceMs, summedMs }: { sinceMs: number; summedMs: number },
): Promise<number | undefined> {
  const hour = await findFirstHour(db, ref, sinceMs);
  if (!hour) return undefined;
  const span = { sinceMs: hour.fromMs, untilMs: hour.fromMs + HOUR_MS };
  if ((await findReceivedMs(db, ref, { sequence: hour.sequence, ...span })) !== undefined) return undefined;
  const { rows } = await db.query(
    `select ${sql.select(PLACE, 'o')} from observations o where o.project_id = $1 and o.monitor_key = $2
       and o.received_at >= ${fromMillis('$3')} order by o.sequence limit 1`,
    [ref.projectId, ref.monitorKey, hour.fromMs],
  );
  return rows.map(toBeatPlace)[0]?.receivedMs ?? summedMs;
}

/** The first hour since then that had an observation, and its first sequence. */
async function findFirstHour(
  db: Queryable,
  ref: MonitorRef,
  sinceMs: number,
): Promise<{ fromMs: number; sequence: number } | undefined> {
  const { rows } = await db.query<{ fromMs: number; sequence: number }>({
    name: 'find-first-observation-hour',
    text: `select ${millis('bucket_start')} as "fromMs", first_sequence as sequence from observation_buckets
      where project_id = $1 and monitor_key = $2 and measurement = '${BEAT_GAP}' and first_sequence is not null
        and bucket_start >= ${fromMillis('$3')} order by bucket_start limit 1`,
    values: [ref.projectId, ref.monitorKey, sinceMs],
  });
  return rows[0];
}
