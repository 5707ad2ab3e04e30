// The statements of the beat path: they write a whole batch in one round trip. Lock order: live rows in key order
// (lockLive), then the rows that depend on them. Only this writer and retention, after 30 idle days, lock the row of a
// lane.
import type { BeatKind } from '../../domain/beat.ts';
import type { Violation } from '../../domain/rules/state.ts';
import {
  type LiveRow,
  MONITOR_REF,
  type MonitorRef,
  updateLiveInShard,
  updateLiveSql,
} from '../monitors/live.ts';
import { recordChanges } from '../monitors/live-changes.ts';
import { type Bind, type Columns, column, sql, statement } from '../postgres/columns.ts';
import { inShard, isDistributed } from '../postgres/engine.ts';
import { fromMillis, NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface ObservationRow extends MonitorRef, ObservationDetail {
  sequence: number;
  kind: BeatKind;
  late: boolean;
}

/** A plain beat has none of these. */
interface ObservationDetail {
  /** RFC 3339 in UTC, whole milliseconds. */
  observedAt?: string;
  durationSeconds?: number;
  exitStatus?: number;
  runId?: string;
  message?: string;
  measurements?: Readonly<Record<string, number>>;
  /** Absent where it violates no rule. */
  violations?: readonly Violation[];
}

/** The columns of an observation. */
export const PLAIN: Columns<Omit<ObservationRow, keyof ObservationDetail>> = {
  ...MONITOR_REF,
  sequence: column.plain('sequence', 'bigint'),
  kind: column.plain('kind', 'text'),
  late: column.plain('late', 'boolean'),
};

export const DETAIL: Columns<ObservationDetail> = {
  observedAt: column.quoted('observed_at', 'timestamptz'),
  durationSeconds: column.plain('duration_seconds', 'double precision'),
  exitStatus: column.plain('exit_status', 'smallint'),
  runId: column.quoted('run_id', 'text'),
  message: column.quoted('message', 'text'),
  measurements: column.json('measurements'),
  violations: column.json('violations'),
};
const FULL: Columns<ObservationRow> = { ...PLAIN, ...DETAIL };
const DETAILS = Object.keys(DETAIL) as (keyof ObservationDetail)[];

/** A batch and its number in the lane. */
export interface LaneBatch {
  laneId: string;
  batch: number;
}

export interface BeatBatch {
  nowMs: number;
  /** Live states after the batch, one for each monitor. */
  live: readonly LiveRow[];
  observations: readonly ObservationRow[];
  lane: LaneBatch;
}

/**
 * An upsert, because the row of a lane that was idle for long may have been deleted. A batch that arrives after
 * `settleBatch` gave it up has no number to write: the column is NOT NULL, so the whole batch fails.
 */
export const writeLane = <Input extends { lane: LaneBatch }>(
  bind: Bind<Input>,
) => `insert into ingest_lanes (lane_id, last_batch, updated_at)
    values (${bind(({ lane }) => lane.laneId)}, ${bind(({ lane }) => lane.batch)}, clock_timestamp())
    on conflict (lane_id) do update set updated_at = excluded.updated_at,
      last_batch = case when ingest_lanes.last_batch < excluded.last_batch then excluded.last_batch end`;

const insertObservations = (columns: Columns<ObservationRow> | typeof PLAIN, bind: Bind<BeatBatch>) =>
  `insert into observations (${sql.names(columns)}, received_at)
      select v.*, ${fromMillis(bind(({ nowMs }) => nowMs))}
      from ${sql.unnest(columns, bind, ({ observations }) => observations)}`;

const writeBatch = (name: string, columns: Columns<ObservationRow> | typeof PLAIN) =>
  statement(
    name,
    (bind: Bind<BeatBatch>) => `with ${updateLiveSql(bind, ({ live }) => live)},
      lane as (${writeLane(bind)})
      ${insertObservations(columns, bind)}`,
  );

const WRITE_WITHOUT_DETAIL = writeBatch('write-beats', PLAIN);
const WRITE_FULL = writeBatch('write-beats-full', FULL);

/** Writes live states, observations and the lane's batch number in one round trip. */
export async function writeBeatBatch(tx: Queryable, batch: BeatBatch): Promise<void> {
  if (isDistributed()) return await writeInShard(tx, batch);
  const write = batch.observations.some(hasDetail) ? WRITE_FULL : WRITE_WITHOUT_DETAIL;
  await tx.query(write(batch));
}

const WRITE_LANE = statement('write-lane', (bind: Bind<BeatBatch>) => writeLane(bind));
const { projectId: _ofLiveRow, ...AT_LIVE_ROW } = FULL;
const INSERT_AT_LIVE_ROWS = statement(
  'insert-observations-at-live-rows',
  (bind: Bind<BeatBatch>) => `insert into observations (project_id, ${sql.names(AT_LIVE_ROW)}, received_at)
    select l.project_id, ${sql.values(AT_LIVE_ROW)}, ${fromMillis(bind(({ nowMs }) => nowMs))}
    from ${sql.unnest(FULL, bind, ({ observations }) => observations)}
    join monitor_live l on l.project_id = v.project_id and l.monitor_key = v.monitor_key${inShard('l', bind, ({ observations }) => observations)}`,
);

/**
 * The same on Citus: statements without CTEs, and inserts by a select that joins the live rows. The machine that has them runs
 * each by itself, so that it alone commits, in one phase.
 */
async function writeInShard(tx: Queryable, batch: BeatBatch): Promise<void> {
  const writes: Promise<unknown>[] = [updateLiveInShard(tx, batch.live), tx.query(WRITE_LANE(batch))];
  if (batch.observations.length > 0) writes.push(tx.query(INSERT_AT_LIVE_ROWS(batch)));
  await Promise.all(writes);
}

function hasDetail(row: ObservationRow): boolean {
  for (const detail of DETAILS) if (row[detail] !== undefined) return true;
  return false;
}

/** Plain beats of one monitor: `count` successes without any detail, under one configuration. */
export interface PlainBeats extends MonitorRef {
  configurationVersion: number;
  count: number;
  intervalMs: number;
  graceMs: number;
  /** beat_cadence of the plan. */
  perMinute: number;
}

const PLAIN_BEATS: Columns<PlainBeats> = {
  ...MONITOR_REF,
  configurationVersion: column.plain('configuration_version', 'integer'),
  count: column.plain('count', 'integer'),
  intervalMs: column.plain('interval_ms', 'bigint'),
  graceMs: column.plain('grace_ms', 'bigint'),
  perMinute: column.plain('per_minute', 'real'),
};

export interface PlainResult {
  monitorKey: string;
  /** After the last beat. */
  lastSequence: number;
  nowMs: number;
}

/**
 * What domain/beat.ts does to a monitor in its plainest state, in one statement that is a transaction of its own. It
 * serves most beats of most installations, at two thirds of the cost; a test compares the two. A row in any other state
 * (another configuration, open incidents or runs, at rest or past its deadline, out of tokens) is neither changed nor
 * returned: its beats take the full path. Rows come in key order, and the connections of lanes join by nested loops only
 * (`LANE_SETTINGS`), so all processes lock rows in the same order.
 */
const writePlain = (name: string, { skipsLocked }: { skipsLocked: boolean }) =>
  statement(name, (bind: Bind<{ beats: readonly PlainBeats[]; lane: LaneBatch }>) => {
    const beats = sql.unnest(PLAIN_BEATS, bind, (input) => input.beats);
    return `with
  now as materialized (select ${NOW_MS} as ms),
  lane as (${writeLane(bind)}),
  ${
    skipsLocked
      ? freeOf(
          beats,
          inShard('f', bind, (input) => input.beats),
        )
      : ''
  }
  live as (
    update monitor_live l set
      last_sequence = l.last_sequence + v.count, first_beat_ms = coalesce(l.first_beat_ms, n.ms), last_beat_ms = n.ms,
      last_success_ms = n.ms, anchor_ms = n.ms, deadline_ms = n.ms + v.interval_ms + v.grace_ms,
      wake_ms = case when l.wake_ms <= n.ms + v.interval_ms and (l.wake_ms - n.ms) * 5 >= v.interval_ms * 3
        then l.wake_ms else n.ms + v.interval_ms end,
      missed_count = 0, unmoved_ms = null, room = null,
      tokens = least(v.per_minute, coalesce(l.tokens, v.per_minute)
        + greatest(0, n.ms - coalesce(l.tokens_ms, n.ms)) * v.per_minute / 60000.0) - v.count,
      tokens_ms = n.ms, changed_xid = pg_current_xact_id()
    from ${skipsLocked ? 'free v' : beats}, now n
    where l.project_id = v.project_id and l.monitor_key = v.monitor_key${inShard('l', bind, (input) => input.beats)}
      and l.configuration_version = v.configuration_version
      and l.open_incidents = 0 and l.open_runs is null and l.missed_count = 0 and l.rests_since_ms is null
      and (l.deadline_ms is null or l.deadline_ms >= n.ms)
      and least(v.per_minute, coalesce(l.tokens, v.per_minute)
        + greatest(0, n.ms - coalesce(l.tokens_ms, n.ms)) * v.per_minute / 60000.0) >= v.count
    returning l.project_id, l.monitor_key, l.last_sequence, v.count, n.ms),
  changes as (${recordChanges('live')}),
  stored as (
    insert into observations (project_id, monitor_key, sequence, kind, late, received_at)
    select project_id, monitor_key, sequence, 'success', false, ${fromMillis('ms')}
    from live, generate_series(last_sequence - count + 1, last_sequence) as sequence)
  select monitor_key, last_sequence, ms from live`;
  });

/** The beats whose rows nobody else holds locked. The update that follows then waits for none. */
const freeOf = (beats: string, inOneShard: string) => `free as materialized (
    select v.* from ${beats}
    join monitor_live f on f.project_id = v.project_id and f.monitor_key = v.monitor_key${inOneShard}
    for no key update of f skip locked),`;

const WRITE_PLAIN = writePlain('write-plain-beats', { skipsLocked: false });
const WRITE_FREE = writePlain('write-free-plain-beats', { skipsLocked: true });

const laneLimits = '-c lock_timeout=200';

/**
 * Session settings of a lane's connection. They allow only plans that visit live rows in the order of the batch, and
 * only generic plans: planning a small batch again costs more than its execution. A row that somebody else holds locked
 * stops a lane only for a short time.
 */
export const LANE_SETTINGS = `${laneLimits} -c enable_hashjoin=off -c enable_mergejoin=off -c enable_seqscan=off -c plan_cache_mode=force_generic_plan`;

/** Citus finds the shard of a statement by its parameters: no generic plan. */
export const LANE_SETTINGS_OF_SHARDS = laneLimits;

/**
 * Writes plain beats. `beats`: in key order, one entry for each monitor. Monitors without a result are unchanged; with
 * `skipsLocked` also those whose rows somebody else holds locked.
 */
export async function writePlainBeats(
  db: Queryable,
  beats: readonly PlainBeats[],
  lane: LaneBatch,
  { skipsLocked = false } = {},
): Promise<PlainResult[]> {
  const write = skipsLocked ? WRITE_FREE : WRITE_PLAIN;
  const { rows } = await db.query<{ monitor_key: string; last_sequence: number; ms: number }>(
    write({ beats, lane }),
  );
  return rows.map((row) => ({
    monitorKey: row.monitor_key,
    lastSequence: row.last_sequence,
    nowMs: row.ms,
  }));
}

/** Creates the lane's row: `settleBatch` needs a lock to wait for, also for the first batch. */
export async function insertLane(db: Queryable, laneId: string): Promise<void> {
  await db.query(
    `insert into ingest_lanes (lane_id, last_batch, updated_at) values ($1, 0, clock_timestamp())
     on conflict (lane_id) do nothing`,
    [laneId],
  );
}

/**
 * Returns whether the lane's batch is committed. If it is not, it can't be any more: this takes the next number. Waits
 * for a transaction of the lane that is still open (on a connection that we lost and the server still has). A
 * transaction whose statements are still in a proxy or in the network comes too late.
 */
export async function settleBatch(db: Queryable, laneId: string, batch: number): Promise<boolean> {
  const { rows } = await db.query<{ last_batch: number }>(
    `update ingest_lanes set last_batch = case when last_batch = $2 then last_batch else $2 + 1 end
     where lane_id = $1 returning last_batch`,
    [laneId, batch],
  );
  return rows[0]?.last_batch === batch;
}
