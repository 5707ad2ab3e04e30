// monitor_live: one narrow row for each monitor. Every writer of a monitor's incidents or live state locks this row
// first, in key order (project_id, monitor_key), so that two writers never deadlock.
import type { LiveState, OpenRun } from '../../domain/monitor.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { inShard, isDistributed, ofProject } from '../postgres/engine.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { recordAtLiveRow, recordChanges } from './live-changes.ts';

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

/** The keys of every table that belongs to a monitor. */
export const MONITOR_REF: Columns<MonitorRef> = {
  projectId: column.plain('project_id', 'uuid'),
  monitorKey: column.plain('monitor_key', 'uuid'),
};

export const LIVE_STATE: Columns<LiveState> = {
  wakeMs: column.plain('wake_ms', 'bigint'),
  deadlineMs: column.plain('deadline_ms', 'bigint'),
  lastSequence: column.plain('last_sequence', 'bigint'),
  firstBeatMs: column.plain('first_beat_ms', 'bigint'),
  lastBeatMs: column.plain('last_beat_ms', 'bigint'),
  lastSuccessMs: column.plain('last_success_ms', 'bigint'),
  lastDurationMs: column.plain('last_duration_ms', 'bigint'),
  anchorMs: column.plain('anchor_ms', 'bigint'),
  missedCount: column.plain('missed_count', 'smallint'),
  openIncidents: column.plain('open_incidents', 'smallint'),
  // NULL without a run, as for nearly every monitor: the plain statement of the beat path tests for it.
  openRuns: column.of<OpenRun[]>('open_runs', {
    type: 'jsonb',
    encode: (runs) => (runs.length === 0 ? undefined : JSON.stringify(runs)),
    decode: (runs: OpenRun[] | null) => runs ?? [],
  }),
  // Postgres has no array of arrays of unequal length: each is sent as text. Not as an array literal, whose conversion is
  // not immutable (docs/adr/0012).
  gaps: column.of<number[]>('gaps', {
    type: 'text',
    write: (parameter) => `string_to_array(${parameter}, ',')::integer[]`,
    encode: (gaps) => (gaps.length === 0 ? undefined : gaps.join(',')),
    decode: (gaps: number[] | null) => gaps ?? [],
  }),
  gapBroken: column.plain('gap_broken', 'boolean'),
  cadenceMs: column.plain('cadence_ms', 'bigint'),
  tokens: column.plain('tokens', 'real'),
  tokensMs: column.plain('tokens_ms', 'bigint'),
  unmovedMs: column.plain('unmoved_ms', 'bigint'),
  restsSinceMs: column.plain('rests_since_ms', 'bigint'),
  excusedFromMs: column.plain('excused_from_ms', 'bigint'),
  excusedMs: column.plain('excused_ms', 'bigint'),
  excusedBeats: column.plain('excused_beats', 'integer'),
  escalatesMs: column.plain('escalates_ms', 'bigint'),
  holdMs: column.plain('hold_ms', 'bigint'),
  startMovedMs: column.plain('start_moved_ms', 'bigint'),
  recursFromMs: column.plain('recurs_from_ms', 'bigint'),
  recursUntilMs: column.plain('recurs_until_ms', 'bigint'),
  ruleStates: column.line('rule_states'),
};

const CHANGING = {
  configurationVersion: column.plain<number>('configuration_version', 'integer'),
  live: LIVE_STATE,
};

const LIVE_ROW: Columns<LiveRow> = { ...MONITOR_REF, ...CHANGING };

/** The columns of a LiveRow, for statements of other files that join this table as `l`. */
export const LIVE_COLUMNS = sql.select(LIVE_ROW, 'l');

/** Turns a row that was selected with LIVE_COLUMNS into a LiveRow. */
export const toLiveRow = rowReader(LIVE_ROW);

export interface LockedLive {
  /** The database's clock, read after all locks were acquired. */
  nowMs: number;
  rows: LiveRow[];
  /** Of `lockFreeLive`: the keys of monitors whose rows somebody else holds locked. */
  heldElsewhere?: Set<string>;
}

const lock = (name: string, ending: string) =>
  statement(
    name,
    (bind: Bind<readonly MonitorRef[]>) => `with locked as materialized (
      select ${LIVE_COLUMNS}
      from monitor_live l
      where (l.project_id, l.monitor_key) in (select * from ${sql.unnest(MONITOR_REF, bind, (refs) => refs)})
        ${inShard('l', bind, (refs) => refs)}
      order by l.project_id, l.monitor_key
      ${ending})
    select *, ${NOW_MS} as now_ms from locked`,
  );
const LOCK = lock('lock-live', 'for update');
const LOCK_FREE = lock('lock-unheld-live', 'for update skip locked');
const FIND_KEYS = statement(
  'find-live-keys',
  (bind: Bind<readonly MonitorRef[]>) => `select l.monitor_key from monitor_live l
    where (l.project_id, l.monitor_key) in (select * from ${sql.unnest(MONITOR_REF, bind, (refs) => refs)})${inShard('l', bind, (refs) => refs)}`,
);

/** Locks the rows in key order and reads them and the clock in one round trip. Leaves out rows that don't exist. */
export async function lockLive(tx: Queryable, refs: readonly MonitorRef[]): Promise<LockedLive> {
  const { rows } = await tx.query<{ now_ms: number }>(LOCK(refs));
  // Each row is locked as it is read: only the clock of the last one was read after all locks were acquired.
  return { nowMs: rows.at(-1)?.now_ms ?? 0, rows: rows.map(toLiveRow) };
}

/** As `lockLive`, and waits for no lock: it leaves out rows that somebody else holds. One round trip in a pipeline. */
export async function lockFreeLive(tx: Queryable, refs: readonly MonitorRef[]): Promise<LockedLive> {
  if (isDistributed()) return await lockFreeInShard(tx, refs);
  const [free, known] = await Promise.all([
    tx.query<{ now_ms: number }>(LOCK_FREE(refs)),
    // Second: a row that its holder deleted meanwhile is not found any more.
    tx.query<{ monitor_key: string }>(FIND_KEYS(refs)),
  ]);
  const heldElsewhere = new Set(known.rows.map((row) => row.monitor_key));
  const rows = free.rows.map(toLiveRow);
  for (const row of rows) heldElsewhere.delete(row.monitorKey);
  return { nowMs: free.rows.at(-1)?.now_ms ?? 0, rows, heldElsewhere };
}

/** On Citus, where each batch locks so, the second statement runs only if rows are missing. */
async function lockFreeInShard(tx: Queryable, refs: readonly MonitorRef[]): Promise<LockedLive> {
  const { rows: free } = await tx.query<{ now_ms: number }>(LOCK_FREE(refs));
  const nowMs = free.at(-1)?.now_ms ?? 0;
  const rows = free.map(toLiveRow);
  if (rows.length === refs.length) return { nowMs, rows };
  const locked = new Set(rows.map(({ monitorKey }) => monitorKey));
  const { rows: known } = await tx.query<{ monitor_key: string }>(FIND_KEYS(refs));
  const heldElsewhere = known.map((row) => row.monitor_key).filter((key) => !locked.has(key));
  return { nowMs, rows, heldElsewhere: new Set(heldElsewhere) };
}

const UPDATE = statement(
  'update-live',
  (bind: Bind<readonly LiveRow[]>) => `with ${updateLiveSql(bind, (rows) => rows)} select from live`,
);

/** Writes the live states back, and stamps and records the change for the status feed. The caller has locked the rows. */
export async function updateLive(tx: Queryable, rows: readonly LiveRow[]): Promise<void> {
  if (rows.length === 0) return;
  if (isDistributed()) await updateLiveInShard(tx, rows);
  else await tx.query(UPDATE(rows));
}

const UPDATE_IN_SHARD = statement('update-live-in-shard', (bind: Bind<readonly LiveRow[]>) => {
  const place = inShard('l', bind, (rows) => rows);
  return updateRows(
    sql.assignments(CHANGING),
    sql.unnest(LIVE_ROW, bind, (rows) => rows),
    place,
  );
});
const RECORD_IN_SHARD = statement('record-changes-in-shard', (bind: Bind<readonly LiveRow[]>) =>
  recordAtLiveRow(
    sql.unnest(MONITOR_REF, bind, (rows) => rows),
    bind(([row]) => row?.projectId),
    bind(([row]) => row?.monitorKey),
  ),
);

/**
 * As `updateLive`, on Citus: it sends the result of a CTE to every machine, and then all of them take part in the commit.
 * Two statements, which a pipeline sends at once.
 */
export async function updateLiveInShard(tx: Queryable, rows: readonly LiveRow[]): Promise<void> {
  await Promise.all([tx.query(UPDATE_IN_SHARD(rows)), tx.query(RECORD_IN_SHARD(rows))]);
}

/** What the passing of time may change of a live row (`wakeMonitor`, `wakeSuspended`). */
export const WOKEN_STATE = {
  wakeMs: LIVE_STATE.wakeMs,
  deadlineMs: LIVE_STATE.deadlineMs,
  anchorMs: LIVE_STATE.anchorMs,
  missedCount: LIVE_STATE.missedCount,
  openIncidents: LIVE_STATE.openIncidents,
  openRuns: LIVE_STATE.openRuns,
  gapBroken: LIVE_STATE.gapBroken,
  unmovedMs: LIVE_STATE.unmovedMs,
  restsSinceMs: LIVE_STATE.restsSinceMs,
  excusedFromMs: LIVE_STATE.excusedFromMs,
  excusedMs: LIVE_STATE.excusedMs,
  excusedBeats: LIVE_STATE.excusedBeats,
  escalatesMs: LIVE_STATE.escalatesMs,
  holdMs: LIVE_STATE.holdMs,
  recursFromMs: LIVE_STATE.recursFromMs,
  recursUntilMs: LIVE_STATE.recursUntilMs,
};
const WOKEN = { live: WOKEN_STATE };
const WOKEN_ROW = { ...MONITOR_REF, ...WOKEN };

const UPDATE_WOKEN = statement(
  'update-woken',
  (bind: Bind<readonly LiveRow[]>) => `with ${updateWokenSql(bind, (rows) => rows)} select from live`,
);

const UPDATE_WOKEN_IN_SHARD = statement('update-woken-in-shard', (bind: Bind<readonly LiveRow[]>) => {
  const place = inShard('l', bind, (rows) => rows);
  return updateRows(
    sql.assignments(WOKEN),
    sql.unnest(WOKEN_ROW, bind, (rows) => rows),
    place,
  );
});

/** As `updateLive`, after monitors were woken: it writes only what time may change. */
export async function updateWoken(tx: Queryable, rows: readonly LiveRow[]): Promise<void> {
  if (rows.length === 0) return;
  if (!isDistributed()) {
    await tx.query(UPDATE_WOKEN(rows));
    return;
  }
  await tx.query(UPDATE_WOKEN_IN_SHARD(rows));
  await tx.query(RECORD_IN_SHARD(rows));
}

/** The CTEs of that update, for statements that do more in the same round trip. */
export function updateWokenSql<Input>(bind: Bind<Input>, rows: (input: Input) => readonly LiveRow[]): string {
  const place = inShard('l', bind, rows);
  return updateSql(sql.assignments(WOKEN), sql.unnest(WOKEN_ROW, bind, rows), place);
}

/** The CTEs of `updateLive`, for statements that do more in the same round trip. */
export function updateLiveSql<Input>(bind: Bind<Input>, rows: (input: Input) => readonly LiveRow[]): string {
  const place = inShard('l', bind, rows);
  return updateSql(sql.assignments(CHANGING), sql.unnest(LIVE_ROW, bind, rows), place);
}

function updateRows(assignments: string, rows: string, place: string): string {
  return `update monitor_live l set ${assignments}, room = null, changed_xid = pg_current_xact_id()
      from ${rows}
      where l.project_id = v.project_id and l.monitor_key = v.monitor_key${place}`;
}

function updateSql(assignments: string, rows: string, place: string): string {
  return `live as (
      ${updateRows(assignments, rows, place)}
      returning l.project_id, l.monitor_key),
    changes as (${recordChanges('live')})`;
}

/**
 * The CTEs that stamp the live rows of the CTE `of`, which has `project_id` and `monitor_key`. `place`: their shard (`inShard`)
 * as rows `l`; on Citus an update of several shards waits for each other one.
 */
export function touchLiveSql(of: string, place: string): string {
  return `touched as (
      update monitor_live l set changed_xid = pg_current_xact_id()
      from ${of} v where l.project_id = v.project_id and l.monitor_key = v.monitor_key${place}
      returning l.project_id, l.monitor_key),
    changes as (${recordChanges('touched')})`;
}

/** Marks a monitor's visible state as changed for the status feed (an acknowledged incident, a new binding). */
export async function touchLive(tx: Queryable, ref: MonitorRef): Promise<void> {
  await tx.query(
    `with named as (select $1::uuid as project_id, $2::uuid as monitor_key), ${touchLiveSql('named', ofProject('l', '$1'))} select from touched`,
    [ref.projectId, ref.monitorKey],
  );
}
