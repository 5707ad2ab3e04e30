// Reads of observations, newest first. Written by the beat path (beats.ts). Day partitions: every read states what
// bounds received_at, so that Postgres opens the days that matter and no others.
import type { BeatKind } from '../../domain/beat.ts';
import type { MonitorRef } from '../monitors/live.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface ObservationRecord {
  sequence: number;
  kind: BeatKind;
  /** ms. */
  receivedMs: number;
  /** ms. */
  observedMs?: number;
  measurements: Record<string, number>;
  durationSeconds?: number;
  exitStatus?: number;
  message?: string;
  runId?: string;
  late: boolean;
  violations: object[];
}

interface Columns {
  sequence: number;
  kind: BeatKind;
  received_ms: number;
  observed_ms: number | null;
  measurements: Record<string, number> | null;
  duration_seconds: number | null;
  exit_status: number | null;
  message: string | null;
  run_id: string | null;
  late: boolean;
  violations: object[] | null;
}

export interface ObservationRange {
  /** ms, inclusive. */
  sinceMs?: number;
  /** ms, exclusive. */
  untilMs?: number;
}

export interface ObservationPosition {
  sequence: number;
  /** ms. */
  receivedMs: number;
}

/**
 * Sequences of a monitor grow with time, but for a database clock that was set back: the place of the page before
 * bounds the days with this much to spare, and the sequence alone decides.
 */
const CLOCK_SLACK_MS = 3_600_000;

/** Reads up to `limit` observations, newest first, below the position of the page before. */
export async function listObservations(
  db: Queryable,
  ref: MonitorRef,
  range: ObservationRange,
  page: { limit: number; after?: ObservationPosition },
): Promise<ObservationRecord[]> {
  const values: unknown[] = [ref.projectId, ref.monitorKey];
  const add = (value: unknown) => `$${values.push(value)}`;
  const time = (ms: number) => `to_timestamp(${add(ms)}::bigint / 1000.0)`;
  const where = ['project_id = $1', 'monitor_key = $2'];
  if (range.sinceMs !== undefined) where.push(`received_at >= ${time(range.sinceMs)}`);
  if (range.untilMs !== undefined) where.push(`received_at < ${time(range.untilMs)}`);
  if (page.after) {
    where.push(`sequence < ${add(page.after.sequence)}`);
    where.push(`received_at < ${time(page.after.receivedMs + CLOCK_SLACK_MS)}`);
  }
  const { rows } = await db.query<Columns>(
    `select sequence, kind, (extract(epoch from received_at) * 1000)::bigint as received_ms,
       (extract(epoch from observed_at) * 1000)::bigint as observed_ms, measurements, duration_seconds, exit_status,
       message, run_id, late, violations
     from observations where ${where.join(' and ')}
     order by sequence desc limit ${add(page.limit)}`,
    values,
  );
  return rows.map(toObservationRecord);
}

/**
 * The observation of the live row's last sequence. `lastBeatMs`: no newer one was received before, but for a log.
 * Undefined before the first, and when retention has taken it.
 */
export async function findLatestObservation(
  db: Queryable,
  ref: MonitorRef,
  last: { sequence: number; lastBeatMs?: number },
): Promise<ObservationRecord | undefined> {
  if (last.sequence === 0) return undefined;
  const rows = await listObservations(
    db,
    ref,
    { sinceMs: last.lastBeatMs === undefined ? undefined : last.lastBeatMs - CLOCK_SLACK_MS },
    { limit: 1 },
  );
  return rows[0];
}

function toObservationRecord(row: Columns): ObservationRecord {
  return {
    sequence: row.sequence,
    kind: row.kind,
    receivedMs: row.received_ms,
    observedMs: row.observed_ms ?? undefined,
    measurements: row.measurements ?? {},
    durationSeconds: row.duration_seconds ?? undefined,
    exitStatus: row.exit_status ?? undefined,
    message: row.message ?? undefined,
    runId: row.run_id ?? undefined,
    late: row.late,
    violations: row.violations ?? [],
  };
}
