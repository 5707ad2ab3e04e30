// Beats of days that are over, written by SQL, and the sweeper's work on them: summing up.
import type pg from 'pg';
import { toTime } from '../../src/domain/timestamp.ts';
import { readSummedUntil } from '../../src/store/beats/observation-sums.ts';
import { PARTITIONED_TABLES, partitionOver } from '../../src/store/postgres/partitions.ts';
import { type StepLimits, sumUpStep } from '../../src/store/upkeep/observation-hours.ts';
import type { SeedMonitor } from './seed.ts';
import { waitFor } from './wait-for.ts';

export const DAY_MS = 86_400_000;
export const HOUR_MS = 3_600_000;

/** The start of a day in UTC, so many days before today. */
export const daysAgo = (days: number) => Math.floor(Date.now() / DAY_MS - days) * DAY_MS;

/** Waits out the last minutes of a day: one that ends within a test would be another one at its end. */
export async function waitOutDay(leftMs = 120_000): Promise<void> {
  await waitFor(() => Date.now() % DAY_MS < DAY_MS - leftMs, {
    what: 'the day is over',
    timeoutMs: leftMs + 30_000,
  });
}

/** Makes the partition of the observations of these days, and returns its name. */
export async function makePartition(
  db: Pick<pg.Pool, 'query'>,
  fromMs: number,
  toMs = fromMs + DAY_MS,
): Promise<string> {
  const [observations] = PARTITIONED_TABLES;
  if (!observations) throw new Error('no table');
  const { name } = partitionOver(observations, fromMs, toMs);
  await db.query(
    `create table ${name} partition of observations for values from ('${toTime(fromMs)}') to ('${toTime(toMs)}')`,
  );
  return name;
}

/** A beat in each half hour, of a day unless `count` says otherwise. */
export const everyHalfHour = (fromMs: number, count = 48): PastBeat[] =>
  Array.from({ length: count }, (_, index) => ({ atMs: fromMs + index * (HOUR_MS / 2) }));

export interface PastBeat {
  atMs: number;
  kind?: 'success' | 'fail' | 'start' | 'log';
  measurements?: Record<string, number>;
}

/** As after their beats: the last sequences of monitors of a project whose observations were written by SQL. */
export async function setLastSequences(db: Pick<pg.Pool, 'query'>, projectId: string): Promise<void> {
  await db.query(
    `update monitor_live l set last_sequence = o.last
     from (select monitor_key, max(sequence) as last from observations where project_id = $1 group by monitor_key) o
     where l.project_id = $1 and l.monitor_key = o.monitor_key and l.last_sequence < o.last`,
    [projectId],
  );
}

/** In the order of their sequences, the first of which is `firstSequence`. */
export async function insertBeats(
  db: Pick<pg.Pool, 'query'>,
  { projectId, monitorKey }: Pick<SeedMonitor, 'projectId' | 'monitorKey'>,
  beats: readonly PastBeat[],
  firstSequence = 1,
): Promise<void> {
  await db.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind, measurements)
     select $1, $2, $3 + v.place - 1, to_timestamp(v.ms / 1000.0), v.kind, v.measurements
     from unnest($4::bigint[], $5::text[], $6::jsonb[]) with ordinality as v (ms, kind, measurements, place)`,
    [
      projectId,
      monitorKey,
      firstSequence,
      beats.map(({ atMs }) => atMs),
      beats.map(({ kind }) => kind ?? 'success'),
      beats.map(({ measurements }) => measurements && JSON.stringify(measurements)),
    ],
  );
  await db.query(
    `update monitor_live set last_sequence = greatest(last_sequence, $3::bigint)
     where project_id = $1 and monitor_key = $2`,
    [projectId, monitorKey, firstSequence + beats.length - 1],
  );
}

/** Nothing is summed up from this day on. */
export async function beginSumsAt(db: Pick<pg.Pool, 'query'>, dayMs: number): Promise<void> {
  await db.query(
    `update observation_sums set day = $1, until = null, closing_xid = null, done_project_id = null,
       done_monitor_key = null, done_sequence = null`,
    [toTime(dayMs)],
  );
}

export const MANY: StepLimits = { monitors: 1_000, observations: 20_000 };

/**
 * Sums up every day before this one, in steps of a sweeper without other ones. A transaction of another suite on the
 * server may have to end first.
 */
export async function sumUpUntil(
  pool: Pick<pg.Pool, 'connect' | 'query'>,
  dayMs: number,
  limits: StepLimits = MANY,
): Promise<void> {
  await endSumsAt(pool, dayMs);
  const isThere = async () => (await readSummedUntil(pool)).summedMs >= dayMs;
  await waitFor(
    async () => {
      while (!(await isThere())) if ((await sumUpStep(pool, limits)) === 'waiting') return false;
      return true;
    },
    { what: 'the days are summed up' },
  );
}

/** As if the days after it were not over. */
export async function endSumsAt(db: Pick<pg.Pool, 'query'>, dayMs: number): Promise<void> {
  await db.query('update observation_sums set until = $1', [toTime(dayMs)]);
}

/** Observations of no monitor that there is: so many that an hour of another one is a small part of their table. */
export async function insertOthers(
  db: Pick<pg.Pool, 'query'>,
  projectId: string,
  { fromMs, count }: { fromMs: number; count: number },
): Promise<void> {
  await db.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind)
     select $1, gen_random_uuid(), 1, to_timestamp($2 / 1000.0), 'success' from generate_series(1, $3)`,
    [projectId, fromMs, count],
  );
}

export async function bucketsOf(db: Pick<pg.Pool, 'query'>, { monitorKey }: Pick<SeedMonitor, 'monitorKey'>) {
  const { rows } = await db.query(
    `select measurement, bucket_start, count, minimum, maximum, mean from observation_buckets
     where monitor_key = $1 and count > 0 order by measurement, bucket_start`,
    [monitorKey],
  );
  return rows;
}
