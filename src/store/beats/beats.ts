// The beat path's statements: addresses to monitors, and one round trip that writes a whole batch. Lock order: live rows
// in key order (lockLive), then what hangs on them. The lane row is this writer's alone.
import type { BeatKind } from '../../domain/beat.ts';
import { UUID_PATTERN } from '../../domain/id.ts';
import { type LiveRow, liveArrays, type MonitorRef, UPDATE_LIVE } from '../monitors/live.ts';
import { plainArray } from '../postgres/plain-array.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface AddressRow extends MonitorRef {
  address: string;
  /** Set on an address that was rotated: it works until then. */
  endsMs?: number;
}

/** Finds the monitors of publish addresses. An address that ended still has its row until the sweeper drops it. */
export async function findAddresses(
  db: Queryable,
  addresses: readonly string[],
): Promise<Map<string, AddressRow>> {
  const { rows } = await db.query<{
    address: string;
    project_id: string;
    monitor_key: string;
    ends_ms: number | null;
  }>({
    name: 'find-addresses',
    text: `select address, project_id, monitor_key, (extract(epoch from ends_at) * 1000)::bigint as ends_ms
      from publish_addresses where address = any($1::uuid[])`,
    values: [addresses.filter((address) => UUID_PATTERN.test(address))],
  });
  return new Map(
    rows.map((row) => [
      row.address,
      {
        address: row.address,
        projectId: row.project_id,
        monitorKey: row.monitor_key,
        endsMs: row.ends_ms ?? undefined,
      },
    ]),
  );
}

export interface ObservationRow extends MonitorRef {
  sequence: number;
  kind: BeatKind;
  late: boolean;
  observedAt?: string;
  durationSeconds?: number;
  exitStatus?: number;
  runId?: string;
  message?: string;
  measurements?: Readonly<Record<string, number>>;
}

export interface BeatBatch {
  nowMs: number;
  /** Live states after the batch, one a monitor. */
  live: readonly LiveRow[];
  observations: readonly ObservationRow[];
  lane: { laneId: string; batch: number };
}

/**
 * An upsert: a lane that was idle for long may have been swept. A batch that `settleBatch` gave up, and that arrives
 * after all, has no number to write: the column refuses that, and the whole batch with it.
 */
const writeLane = (
  laneId: string,
  batch: string,
) => `insert into ingest_lanes (lane_id, last_batch, updated_at)
    values (${laneId}, ${batch}, clock_timestamp())
    on conflict (lane_id) do update set updated_at = excluded.updated_at,
      last_batch = case when ingest_lanes.last_batch < excluded.last_batch then excluded.last_batch end`;

const PLAIN = `with live as (${UPDATE_LIVE}), lane as (${writeLane('$20', '$21')})
  insert into observations (project_id, monitor_key, sequence, kind, late, received_at)
  select v.*, to_timestamp($22 / 1000.0)
  from unnest($23::uuid[], $24::uuid[], $25::bigint[], $26::text[], $27::boolean[]) as v`;

const FULL = `with live as (${UPDATE_LIVE}), lane as (${writeLane('$20', '$21')})
  insert into observations (project_id, monitor_key, sequence, kind, late, observed_at, duration_seconds, exit_status,
    run_id, message, measurements, received_at)
  select v.*, to_timestamp($22 / 1000.0)
  from unnest($23::uuid[], $24::uuid[], $25::bigint[], $26::text[], $27::boolean[], $28::timestamptz[],
    $29::double precision[], $30::smallint[], $31::text[], $32::text[], $33::jsonb[]) as v`;

/** Writes live states, observations and the lane's batch number in one round trip. */
export async function writeBeatBatch(tx: Queryable, batch: BeatBatch): Promise<void> {
  const { observations, lane } = batch;
  const values: unknown[] = [
    ...liveArrays(batch.live),
    lane.laneId,
    lane.batch,
    batch.nowMs,
    plainArray(observations.map((row) => row.projectId)),
    plainArray(observations.map((row) => row.monitorKey)),
    plainArray(observations.map((row) => row.sequence)),
    plainArray(observations.map((row) => row.kind)),
    plainArray(observations.map((row) => row.late)),
  ];
  if (!observations.some(hasDetail)) {
    await tx.query({ name: 'write-beats', text: PLAIN, values });
    return;
  }
  values.push(
    observations.map((row) => row.observedAt),
    plainArray(observations.map((row) => row.durationSeconds)),
    plainArray(observations.map((row) => row.exitStatus)),
    observations.map((row) => row.runId),
    observations.map((row) => row.message),
    observations.map((row) => (row.measurements ? JSON.stringify(row.measurements) : undefined)),
  );
  await tx.query({ name: 'write-beats-full', text: FULL, values });
}

function hasDetail(row: ObservationRow): boolean {
  return (
    row.observedAt !== undefined ||
    row.durationSeconds !== undefined ||
    row.exitStatus !== undefined ||
    row.runId !== undefined ||
    row.message !== undefined ||
    row.measurements !== undefined
  );
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

export interface PlainResult {
  monitorKey: string;
  /** After the last of them. */
  lastSequence: number;
  nowMs: number;
}

/**
 * What domain/beat.ts does to a monitor in its plainest state, in one statement that is its own transaction: most
 * beats of most installations, at two thirds of the price. A test holds the two together. A row in any other state
 * (another configuration, open incidents or runs, past its deadline, out of tokens) is left alone and not returned:
 * those beats take the other way. Rows are given in key order, and the lanes' connections join by nested loops alone
 * (see `LANE_SETTINGS`), so that two processes lock rows in one order.
 */
const WRITE_PLAIN = `with now as materialized (select (extract(epoch from clock_timestamp()) * 1000)::bigint as ms),
  lane as (${writeLane('$8', '$9')}),
  live as (
    update monitor_live l set
      last_sequence = l.last_sequence + v.count, first_beat_ms = coalesce(l.first_beat_ms, n.ms), last_beat_ms = n.ms,
      last_success_ms = n.ms, anchor_ms = n.ms, deadline_ms = n.ms + v.interval_ms + v.grace_ms,
      wake_ms = n.ms + v.interval_ms, missed_count = 0, outage_ms = 0,
      tokens = least(v.per_minute, coalesce(l.tokens, v.per_minute)
        + greatest(0, n.ms - coalesce(l.tokens_ms, n.ms)) * v.per_minute / 60000.0) - v.count,
      tokens_ms = n.ms, changed_xid = pg_current_xact_id()
    from unnest($1::uuid[], $2::uuid[], $3::integer[], $4::integer[], $5::bigint[], $6::bigint[], $7::real[])
      as v (project_id, monitor_key, configuration_version, count, interval_ms, grace_ms, per_minute), now n
    where l.project_id = v.project_id and l.monitor_key = v.monitor_key
      and l.configuration_version = v.configuration_version
      and l.open_incidents = 0 and l.open_runs is null and l.missed_count = 0
      and (l.deadline_ms is null or l.deadline_ms >= n.ms)
      and least(v.per_minute, coalesce(l.tokens, v.per_minute)
        + greatest(0, n.ms - coalesce(l.tokens_ms, n.ms)) * v.per_minute / 60000.0) >= v.count
    returning l.project_id, l.monitor_key, l.last_sequence, v.count, n.ms),
  stored as (
    insert into observations (project_id, monitor_key, sequence, kind, late, received_at)
    select project_id, monitor_key, sequence, 'success', false, to_timestamp(ms / 1000.0)
    from live, generate_series(last_sequence - count + 1, last_sequence) as sequence)
  select monitor_key, last_sequence, ms from live`;

/**
 * Session settings of a lane's connection: only plans that visit live rows in the order of the batch, and none made
 * for one batch alone: small batches would be planned again each time, for more than their execution takes.
 */
export const LANE_SETTINGS =
  '-c enable_hashjoin=off -c enable_mergejoin=off -c enable_seqscan=off -c plan_cache_mode=force_generic_plan';

/** Writes plain beats; `beats` in key order, one entry a monitor. Monitors that are not answered were left alone. */
export async function writePlainBeats(
  db: Queryable,
  beats: readonly PlainBeats[],
  lane: { laneId: string; batch: number },
): Promise<PlainResult[]> {
  const { rows } = await db.query<{ monitor_key: string; last_sequence: number; ms: number }>({
    name: 'write-plain-beats',
    text: WRITE_PLAIN,
    values: [
      plainArray(beats.map((beat) => beat.projectId)),
      plainArray(beats.map((beat) => beat.monitorKey)),
      plainArray(beats.map((beat) => beat.configurationVersion)),
      plainArray(beats.map((beat) => beat.count)),
      plainArray(beats.map((beat) => beat.intervalMs)),
      plainArray(beats.map((beat) => beat.graceMs)),
      plainArray(beats.map((beat) => beat.perMinute)),
      lane.laneId,
      lane.batch,
    ],
  });
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
 * Whether the lane's batch is committed; if not, it can't be any more: the next number is taken. Waits for a transaction
 * of the lane that is still open somewhere (a connection that we lost and the server has not noticed yet). One whose
 * statements are still on their way, in a proxy or in the network, comes too late.
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

/** Answers of beats under an Idempotency-Key that are still valid. Under the lock of the live rows no duplicate runs. */
export async function findBeatKeys<Answer>(
  tx: Queryable,
  keys: readonly (MonitorRef & { key: string })[],
): Promise<BeatKeyRow<Answer>[]> {
  const { rows } = await tx.query<{
    project_id: string;
    monitor_key: string;
    key: string;
    answer: Answer;
  }>(
    `select project_id, monitor_key, key, answer from beat_keys
     where (project_id, monitor_key, key) in (select * from unnest($1::uuid[], $2::uuid[], $3::text[]))
       and expires_at > clock_timestamp()`,
    [keys.map((it) => it.projectId), keys.map((it) => it.monitorKey), keys.map((it) => it.key)],
  );
  return rows.map((row) => ({
    projectId: row.project_id,
    monitorKey: row.monitor_key,
    key: row.key,
    answer: row.answer,
  }));
}

/** Keeps the answers for an hour (docs/contract/beats.md); an expired key is taken over. */
export async function insertBeatKeys<Answer>(
  tx: Queryable,
  rows: readonly BeatKeyRow<Answer>[],
): Promise<void> {
  if (rows.length === 0) return;
  await tx.query(
    `insert into beat_keys (project_id, monitor_key, key, answer, expires_at)
     select v.*, clock_timestamp() + interval '1 hour'
     from unnest($1::uuid[], $2::uuid[], $3::text[], $4::jsonb[]) as v
     on conflict (project_id, monitor_key, key) do update set answer = excluded.answer, expires_at = excluded.expires_at`,
    [
      rows.map((row) => row.projectId),
      rows.map((row) => row.monitorKey),
      rows.map((row) => row.key),
      rows.map((row) => JSON.stringify(row.answer)),
    ],
  );
}
