// monitor_live: one narrow row a monitor. Every writer of a monitor's incidents or live state locks this row first,
// in key order (project_id, monitor_key), so that two writers never wait for each other in a circle.
import type { LiveState } from '../../domain/monitor.ts';
import { plainArray, sparseArray } from '../postgres/plain-array.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface MonitorRef {
  projectId: string;
  monitorKey: string;
}

export interface LiveRow extends MonitorRef {
  configurationVersion: number;
  live: LiveState;
}

/** Buckets over which sweepers share the work. */
export const SWEEP_BUCKETS = 64;

/** Spreads monitors evenly and independently of time. */
export function sweepBucketOf(monitorKey: string): number {
  return Number.parseInt(monitorKey.slice(-2), 16) % SWEEP_BUCKETS;
}

interface LiveColumns {
  project_id: string;
  monitor_key: string;
  configuration_version: number;
  wake_ms: number | null;
  deadline_ms: number | null;
  last_sequence: number;
  first_beat_ms: number | null;
  last_beat_ms: number | null;
  last_success_ms: number | null;
  anchor_ms: number | null;
  missed_count: number;
  open_incidents: number;
  open_runs: LiveState['openRuns'] | null;
  gaps: number[] | null;
  gap_broken: boolean;
  cadence_ms: number | null;
  tokens: number | null;
  tokens_ms: number | null;
  outage_ms: number;
}

/** The columns of a LiveState, for statements of other files that join this table as `l`. */
export const LIVE_COLUMNS = `l.project_id, l.monitor_key, l.configuration_version, l.wake_ms, l.deadline_ms,
  l.last_sequence, l.first_beat_ms, l.last_beat_ms, l.last_success_ms, l.anchor_ms, l.missed_count, l.open_incidents,
  l.open_runs, l.gaps, l.gap_broken, l.cadence_ms, l.tokens, l.tokens_ms, l.outage_ms`;

/** Turns a row that was selected with LIVE_COLUMNS into a LiveRow. */
export function toLiveRow(row: LiveColumns): LiveRow {
  return {
    projectId: row.project_id,
    monitorKey: row.monitor_key,
    configurationVersion: row.configuration_version,
    live: {
      wakeMs: row.wake_ms ?? undefined,
      deadlineMs: row.deadline_ms ?? undefined,
      lastSequence: row.last_sequence,
      firstBeatMs: row.first_beat_ms ?? undefined,
      lastBeatMs: row.last_beat_ms ?? undefined,
      lastSuccessMs: row.last_success_ms ?? undefined,
      anchorMs: row.anchor_ms ?? undefined,
      missedCount: row.missed_count,
      openIncidents: row.open_incidents,
      openRuns: row.open_runs ?? [],
      gaps: row.gaps ?? [],
      gapBroken: row.gap_broken,
      cadenceMs: row.cadence_ms ?? undefined,
      tokens: row.tokens ?? undefined,
      tokensMs: row.tokens_ms ?? undefined,
      outageMs: row.outage_ms,
    },
  };
}

export interface LockedLive {
  /** The database's clock, read after the locks were had. */
  nowMs: number;
  rows: LiveRow[];
}

/** Locks the rows in key order and reads them and the clock in one round trip. Rows that don't exist are left out. */
export async function lockLive(tx: Queryable, refs: readonly MonitorRef[]): Promise<LockedLive> {
  const { rows } = await tx.query<LiveColumns & { now_ms: number }>({
    name: 'lock-live',
    text: `with locked as materialized (
        select ${LIVE_COLUMNS}
        from monitor_live l
        where (l.project_id, l.monitor_key) in (select * from unnest($1::uuid[], $2::uuid[]))
        order by l.project_id, l.monitor_key
        for update)
      select *, (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms from locked`,
    values: [refs.map((ref) => ref.projectId), refs.map((ref) => ref.monitorKey)],
  });
  // Each row is locked as it is read: only the last one's clock was read after all locks were had.
  return { nowMs: rows.at(-1)?.now_ms ?? 0, rows: rows.map(toLiveRow) };
}

/** Writes the live states back and stamps the change for the status feed. The rows are locked by the caller. */
export async function updateLive(tx: Queryable, rows: readonly LiveRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query({ name: 'update-live', text: UPDATE_LIVE, values: liveArrays(rows) });
}

/** SQL of the update over `$1 … $19`, for statements that do more in the same round trip. */
export const UPDATE_LIVE = `update monitor_live l set
    configuration_version = v.configuration_version, wake_ms = v.wake_ms, deadline_ms = v.deadline_ms,
    last_sequence = v.last_sequence, first_beat_ms = v.first_beat_ms, last_beat_ms = v.last_beat_ms,
    last_success_ms = v.last_success_ms, anchor_ms = v.anchor_ms, missed_count = v.missed_count,
    open_incidents = v.open_incidents, open_runs = v.open_runs, gaps = v.gaps::integer[],
    gap_broken = v.gap_broken, cadence_ms = v.cadence_ms, tokens = v.tokens, tokens_ms = v.tokens_ms,
    outage_ms = v.outage_ms, changed_xid = pg_current_xact_id()
  from unnest($1::uuid[], $2::uuid[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
    $8::bigint[], $9::bigint[], $10::bigint[], $11::smallint[], $12::smallint[], $13::jsonb[], $14::text[],
    $15::boolean[], $16::bigint[], $17::real[], $18::bigint[], $19::bigint[])
    as v (project_id, monitor_key, configuration_version, wake_ms, deadline_ms, last_sequence, first_beat_ms,
      last_beat_ms, last_success_ms, anchor_ms, missed_count, open_incidents, open_runs, gaps, gap_broken,
      cadence_ms, tokens, tokens_ms, outage_ms)
  where l.project_id = v.project_id and l.monitor_key = v.monitor_key`;

/** The nineteen arrays of UPDATE_LIVE, one element a row. */
export function liveArrays(rows: readonly LiveRow[]): unknown[] {
  const column = (read: (row: LiveRow) => string | number | boolean | undefined) =>
    plainArray(rows.map(read));
  return [
    column((row) => row.projectId),
    column((row) => row.monitorKey),
    column((row) => row.configurationVersion),
    column(({ live }) => live.wakeMs),
    column(({ live }) => live.deadlineMs),
    column(({ live }) => live.lastSequence),
    column(({ live }) => live.firstBeatMs),
    column(({ live }) => live.lastBeatMs),
    column(({ live }) => live.lastSuccessMs),
    column(({ live }) => live.anchorMs),
    column(({ live }) => live.missedCount),
    column(({ live }) => live.openIncidents),
    sparseArray(
      rows.map(({ live }) => (live.openRuns.length === 0 ? undefined : JSON.stringify(live.openRuns))),
    ),
    // An array of arrays of unequal length is no Postgres array: each goes as its text form.
    sparseArray(rows.map(({ live }) => (live.gaps.length === 0 ? undefined : `{${live.gaps.join(',')}}`))),
    column(({ live }) => live.gapBroken),
    column(({ live }) => live.cadenceMs),
    column(({ live }) => live.tokens),
    column(({ live }) => live.tokensMs),
    column(({ live }) => live.outageMs),
  ];
}

/** Marks a monitor's visible state as changed (an incident was acknowledged, a binding set) for the status feed. */
export async function touchLive(tx: Queryable, ref: MonitorRef): Promise<void> {
  await tx.query(
    'update monitor_live set changed_xid = pg_current_xact_id() where project_id = $1 and monitor_key = $2',
    [ref.projectId, ref.monitorKey],
  );
}
