// The beat path's statements: addresses to monitors, and one round trip that writes a whole batch. Lock order: live
// rows in key order (lockLive), then their other rows. The lane row has no other writer.
import type { BeatKind } from '../../domain/beat.ts';
import { UUID_PATTERN } from '../../domain/id.ts';
import { type LiveRow, MONITOR_REF, type MonitorRef, updateLiveSql } from '../monitors/live.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { fromMillis, NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface AddressRow extends MonitorRef {
  address: string;
  /** Set on a rotated address: it works until then. */
  endsMs?: number;
}

const ADDRESS: Columns<AddressRow> = {
  address: column.plain('address', 'uuid'),
  ...MONITOR_REF,
  endsMs: column.moment('ends_at'),
};
const toAddressRow = rowReader(ADDRESS);

/** Finds the monitors of publish addresses. An address that ended still has its row until the sweeper drops it. */
export async function findAddresses(
  db: Queryable,
  addresses: readonly string[],
): Promise<Map<string, AddressRow>> {
  const { rows } = await db.query({
    name: 'find-addresses',
    text: `select ${sql.select(ADDRESS, 'a')} from publish_addresses a where a.address = any($1::uuid[])`,
    values: [addresses.filter((address) => UUID_PATTERN.test(address))],
  });
  return new Map(rows.map(toAddressRow).map((row) => [row.address, row]));
}

export interface ObservationRow extends MonitorRef, ObservationDetail {
  sequence: number;
  kind: BeatKind;
  late: boolean;
}

/** The details of a beat; a plain beat has none. */
interface ObservationDetail {
  /** RFC 3339, as the sender wrote it: Postgres reads it, with its microseconds. */
  observedAt?: string;
  durationSeconds?: number;
  exitStatus?: number;
  runId?: string;
  message?: string;
  measurements?: Readonly<Record<string, number>>;
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
};
const DETAILS = Object.keys(DETAIL) as (keyof ObservationDetail)[];

/** The place of a batch in the order of its lane. */
export interface LaneBatch {
  laneId: string;
  batch: number;
}

export interface BeatBatch {
  nowMs: number;
  /** Live states after the batch, one a monitor. */
  live: readonly LiveRow[];
  observations: readonly ObservationRow[];
  lane: LaneBatch;
}

/**
 * An upsert, because the row of a long idle lane may have been deleted. A batch that arrives after `settleBatch` has
 * given it up writes no number: the column refuses that, and with it the whole batch.
 */
const writeLane = <Input extends { lane: LaneBatch }>(
  bind: Bind<Input>,
) => `insert into ingest_lanes (lane_id, last_batch, updated_at)
    values (${bind(({ lane }) => lane.laneId)}, ${bind(({ lane }) => lane.batch)}, clock_timestamp())
    on conflict (lane_id) do update set updated_at = excluded.updated_at,
      last_batch = case when ingest_lanes.last_batch < excluded.last_batch then excluded.last_batch end`;

const writeBatch = (name: string, columns: Columns<ObservationRow> | typeof PLAIN) =>
  statement(
    name,
    (bind: Bind<BeatBatch>) => `with live as (${updateLiveSql(bind, ({ live }) => live)}),
      lane as (${writeLane(bind)})
      insert into observations (${sql.names(columns)}, received_at)
      select v.*, ${fromMillis(bind(({ nowMs }) => nowMs))}
      from ${sql.unnest(columns, bind, ({ observations }) => observations)}`,
  );

const WRITE_WITHOUT_DETAIL = writeBatch('write-beats', PLAIN);
const WRITE_FULL = writeBatch('write-beats-full', { ...PLAIN, ...DETAIL });

/** Writes live states, observations and the lane's batch number in one round trip. */
export async function writeBeatBatch(tx: Queryable, batch: BeatBatch): Promise<void> {
  const write = batch.observations.some(hasDetail) ? WRITE_FULL : WRITE_WITHOUT_DETAIL;
  await tx.query(write(batch));
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
 * Does what domain/beat.ts does to a monitor in its plainest state, in one statement that is its own transaction: most
 * beats of most installations, at two thirds of the cost. A test holds the two together. A row in any other state
 * (another configuration, open incidents or runs, past its deadline, out of tokens) is neither changed nor returned:
 * its beats take the full transaction. The input has key order, and connections of lanes join only by nested loops
 * (`LANE_SETTINGS`), so that all processes lock rows in one order.
 */
const WRITE_PLAIN = statement(
  'write-plain-beats',
  (bind: Bind<{ beats: readonly PlainBeats[]; lane: LaneBatch }>) => `with
  now as materialized (select ${NOW_MS} as ms),
  lane as (${writeLane(bind)}),
  live as (
    update monitor_live l set
      last_sequence = l.last_sequence + v.count, first_beat_ms = coalesce(l.first_beat_ms, n.ms), last_beat_ms = n.ms,
      last_success_ms = n.ms, anchor_ms = n.ms, deadline_ms = n.ms + v.interval_ms + v.grace_ms,
      wake_ms = n.ms + v.interval_ms, missed_count = 0, outage_ms = 0,
      tokens = least(v.per_minute, coalesce(l.tokens, v.per_minute)
        + greatest(0, n.ms - coalesce(l.tokens_ms, n.ms)) * v.per_minute / 60000.0) - v.count,
      tokens_ms = n.ms, changed_xid = pg_current_xact_id()
    from ${sql.unnest(PLAIN_BEATS, bind, ({ beats }) => beats)}, now n
    where l.project_id = v.project_id and l.monitor_key = v.monitor_key
      and l.configuration_version = v.configuration_version
      and l.open_incidents = 0 and l.open_runs is null and l.missed_count = 0
      and (l.deadline_ms is null or l.deadline_ms >= n.ms)
      and least(v.per_minute, coalesce(l.tokens, v.per_minute)
        + greatest(0, n.ms - coalesce(l.tokens_ms, n.ms)) * v.per_minute / 60000.0) >= v.count
    returning l.project_id, l.monitor_key, l.last_sequence, v.count, n.ms),
  stored as (
    insert into observations (project_id, monitor_key, sequence, kind, late, received_at)
    select project_id, monitor_key, sequence, 'success', false, ${fromMillis('ms')}
    from live, generate_series(last_sequence - count + 1, last_sequence) as sequence)
  select monitor_key, last_sequence, ms from live`,
);

/**
 * Session settings of a lane's connection: only plans that visit live rows in the order of the batch, and no plans for
 * single batches: planning a small batch takes longer than running it.
 */
export const LANE_SETTINGS =
  '-c enable_hashjoin=off -c enable_mergejoin=off -c enable_seqscan=off -c plan_cache_mode=force_generic_plan';

/** Writes plain beats; `beats` in key order, one entry per monitor. A monitor without a result was not changed. */
export async function writePlainBeats(
  db: Queryable,
  beats: readonly PlainBeats[],
  lane: LaneBatch,
): Promise<PlainResult[]> {
  const { rows } = await db.query<{ monitor_key: string; last_sequence: number; ms: number }>(
    WRITE_PLAIN({ beats, lane }),
  );
  return rows.map((row) => ({
    monitorKey: row.monitor_key,
    lastSequence: row.last_sequence,
    nowMs: row.ms,
  }));
}

/** Makes the lane's row, so that `settleBatch` has a lock to wait for from the first batch on. */
export async function insertLane(db: Queryable, laneId: string): Promise<void> {
  await db.query(
    `insert into ingest_lanes (lane_id, last_batch, updated_at) values ($1, 0, clock_timestamp())
     on conflict (lane_id) do nothing`,
    [laneId],
  );
}

/**
 * Whether the lane's batch is committed. If not, it never will be: the next number is taken. Waits for an open
 * transaction of the lane (the server may not have noticed yet that its connection is lost). Statements that are still
 * under way, in a proxy or the network, arrive too late.
 */
export async function settleBatch(db: Queryable, laneId: string, batch: number): Promise<boolean> {
  const { rows } = await db.query<{ last_batch: number }>(
    `update ingest_lanes set last_batch = case last_batch when $2 then last_batch else $2 + 1 end
     where lane_id = $1 returning last_batch`,
    [laneId, batch],
  );
  return rows[0]?.last_batch === batch;
}

/** `Answer`: what the beat path answered, as JSON keeps it. */
export interface BeatKeyRow<Answer> extends MonitorRef {
  key: string;
  answer: Answer;
}

interface BeatKey extends MonitorRef {
  key: string;
}

const BEAT_KEY: Columns<BeatKey> = { ...MONITOR_REF, key: column.quoted('key', 'text') };
const BEAT_KEY_ROW: Columns<BeatKeyRow<unknown>> = { ...BEAT_KEY, answer: column.json('answer') };
const toBeatKeyRow = rowReader(BEAT_KEY_ROW);

const FIND_KEYS = statement(
  'find-beat-keys',
  (bind: Bind<readonly BeatKey[]>) => `select ${sql.select(BEAT_KEY_ROW, 'k')} from beat_keys k
    where (k.project_id, k.monitor_key, k.key) in (select * from ${sql.unnest(BEAT_KEY, bind, (keys) => keys)})
      and k.expires_at > clock_timestamp()`,
);

/**
 * Answers of beats under an Idempotency-Key that are still kept. Call it under the lock of the live rows: no concurrent
 * duplicate is under way then.
 */
export async function findBeatKeys<Answer>(
  tx: Queryable,
  keys: readonly BeatKey[],
): Promise<BeatKeyRow<Answer>[]> {
  const { rows } = await tx.query(FIND_KEYS(keys));
  return rows.map((row) => toBeatKeyRow(row) as BeatKeyRow<Answer>);
}

const INSERT_KEYS = statement(
  'insert-beat-keys',
  (
    bind: Bind<readonly BeatKeyRow<unknown>[]>,
  ) => `insert into beat_keys (${sql.names(BEAT_KEY_ROW)}, expires_at)
    select v.*, clock_timestamp() + interval '1 hour'
    from ${sql.unnest(BEAT_KEY_ROW, bind, (rows) => rows)}
    on conflict (project_id, monitor_key, key) do update set answer = excluded.answer, expires_at = excluded.expires_at`,
);

/** Keeps the answers for an hour (docs/contract/beats.md); an expired key is taken over. */
export async function insertBeatKeys<Answer>(
  tx: Queryable,
  rows: readonly BeatKeyRow<Answer>[],
): Promise<void> {
  if (rows.length > 0) await tx.query(INSERT_KEYS(rows));
}
