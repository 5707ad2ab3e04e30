// The beat path's statements: addresses to monitors, and one round trip that writes a whole batch. Lock order: live rows
// in key order (lockLive), then what hangs on them. The lane row is this writer's alone.
import type { BeatKind } from '../domain/beat.ts';
import { UUID_PATTERN } from '../domain/id.ts';
import { type LiveRow, liveArrays, type MonitorRef, UPDATE_LIVE } from './live.ts';
import { plainArray } from './plain-array.ts';
import type { Queryable } from './pool.ts';

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

const UPDATE_LANE =
  'update ingest_lanes set last_batch = $21, updated_at = to_timestamp($22 / 1000.0) where lane_id = $20';

const PLAIN = `with live as (${UPDATE_LIVE}), lane as (${UPDATE_LANE})
  insert into observations (project_id, monitor_key, sequence, kind, late, received_at)
  select v.*, to_timestamp($22 / 1000.0)
  from unnest($23::uuid[], $24::uuid[], $25::bigint[], $26::text[], $27::boolean[]) as v`;

const FULL = `with live as (${UPDATE_LIVE}), lane as (${UPDATE_LANE})
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

/** Makes the lane's row. A lane belongs to one connection of one process. */
export async function insertLane(db: Queryable, laneId: string): Promise<void> {
  await db.query(
    `insert into ingest_lanes (lane_id, last_batch, updated_at) values ($1, 0, clock_timestamp())
     on conflict (lane_id) do nothing`,
    [laneId],
  );
}

/**
 * The number of the lane's last committed batch. Waits for a transaction of the lane that is still open somewhere
 * (a connection that we lost and the server has not noticed yet), so that the answer is final.
 */
export async function readLane(db: Queryable, laneId: string): Promise<number | undefined> {
  const { rows } = await db.query<{ last_batch: number }>(
    'select last_batch from ingest_lanes where lane_id = $1 for update',
    [laneId],
  );
  return rows[0]?.last_batch;
}

export interface BeatKeyRow extends MonitorRef {
  key: string;
  answer: Record<string, unknown>;
}

/** Answers of beats under an Idempotency-Key that hold still. Under the lock of the live rows no twin is on its way. */
export async function findBeatKeys(
  tx: Queryable,
  keys: readonly (MonitorRef & { key: string })[],
): Promise<BeatKeyRow[]> {
  const { rows } = await tx.query<{
    project_id: string;
    monitor_key: string;
    key: string;
    answer: Record<string, unknown>;
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

/** Keeps the answers for an hour (completion.md 2.2); an expired key is taken over. */
export async function insertBeatKeys(tx: Queryable, rows: readonly BeatKeyRow[]): Promise<void> {
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
