// The sweeper sums up observations by hours, once, and nothing is dropped before. What a series reads is in
// test/store/series-property.test.ts.
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readSeries } from '../../src/service/monitors/series.ts';
import { readSummedUntil } from '../../src/store/beats/observation-sums.ts';
import { touchLive } from '../../src/store/monitors/live.ts';
import { dropPartitions, listPartitions, PARTITIONED_TABLES } from '../../src/store/postgres/partitions.ts';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { sumUpStep } from '../../src/store/upkeep/observation-hours.ts';
import { runUnderLease } from '../../src/sweeper/upkeep/job.ts';
import { createSums, watchSums } from '../../src/sweeper/upkeep/sum-up-observations.ts';
import { sweepPartitions } from '../../src/sweeper/upkeep/sweep-partitions.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import {
  beginSumsAt,
  bucketsOf,
  DAY_MS,
  daysAgo,
  everyHalfHour,
  HOUR_MS,
  insertBeats,
  MANY,
  makePartition,
  sumUpUntil,
  waitOutDay,
} from '../support/past-beats.ts';
import { type SeedMonitor, seedMonitor, seedMonitors } from '../support/seed.ts';
import { makeParts } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

const [observations] = PARTITIONED_TABLES;
if (!observations) throw new Error('no table');

let fixture: ProjectFixture;
let pool: Pool;

beforeEach(async () => {
  await waitOutDay();
  fixture = await openProjectFixture();
  pool = fixture.pool;
});
afterEach(() => fixture?.close());

/** A beat in each half hour, whose measurement is its place. */
const measuredDay = (dayMs: number) =>
  everyHalfHour(dayMs).map((beat, index) => ({ ...beat, measurements: { rows: index } }));
const seed = () => seedMonitor(pool, fixture.project);
const makeDeps = () => ({ pool, slowPool: pool, ...makeParts() });

async function countOf(table: string): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(`select count(*)::integer as count from ${table}`);
  return rows[0]?.count ?? -1;
}

describe('an hour', () => {
  it('has count, minimum, maximum and mean of each measurement, and of the gaps between its beats', async () => {
    const monitor = await seed();
    await insertBeats(pool, monitor, measuredDay(daysAgo(2)));
    await beginSumsAt(pool, daysAgo(2));
    await sumUpUntil(pool, daysAgo(1));
    const rows = await bucketsOf(pool, monitor);
    expect(rows).toHaveLength(48);
    const at = new Date(daysAgo(2) + 5 * HOUR_MS);
    expect(rows.filter(({ bucket_start: start }) => start.getTime() === at.getTime())).toEqual([
      { measurement: 'beatGapSeconds', bucket_start: at, count: 2, minimum: 1800, maximum: 1800, mean: 1800 },
      { measurement: 'rows', bucket_start: at, count: 2, minimum: 10, maximum: 11, mean: 10.5 },
    ]);
  });

  it('the greatest and the smallest numbers that a beat may have keep nobody from being summed up', async () => {
    const monitors = await seedMonitors(pool, fixture.project, 2);
    const all: Record<string, number>[] = [
      { rows: Number.MAX_VALUE, high: 1.7e308, low: Number.MIN_VALUE },
      { rows: Number.MAX_VALUE, high: 1.7e308, low: 0 },
      { rows: -Number.MAX_VALUE },
      { rows: Number.MIN_VALUE },
    ];
    const beats = all.map((measurements, index) => ({ atMs: daysAgo(2) + index, measurements }));
    for (const monitor of monitors) await insertBeats(pool, monitor, beats);
    await beginSumsAt(pool, daysAgo(2));
    await sumUpUntil(pool, daysAgo(1));
    for (const monitor of monitors) {
      expect(await bucketsOf(pool, monitor)).toMatchObject([
        { measurement: 'beatGapSeconds', count: 3 },
        { measurement: 'high', mean: 1.7e308 },
        { measurement: 'low', minimum: 0, maximum: Number.MIN_VALUE },
        { measurement: 'rows', minimum: -Number.MAX_VALUE, maximum: Number.MAX_VALUE },
      ]);
    }
  });

  it('the greatest numbers that a beat may have can be read again', async () => {
    const monitor = await seed();
    const rows = -1.7976931348623155e308;
    await insertBeats(pool, monitor, [{ atMs: daysAgo(2), measurements: { rows } }]);
    await beginSumsAt(pool, daysAgo(2));
    await sumUpUntil(pool, daysAgo(1));
    const { buckets } = await readSeries(
      pool,
      { projectId: monitor.projectId, monitorId: monitor.monitorId },
      { fromMs: daysAgo(2), toMs: daysAgo(1), measurement: 'rows', bucketSeconds: 86_400 },
    );
    expect(buckets.map(({ sums }) => sums?.mean)).toEqual([rows]);
  });

  it('a mean is never outside of minimum and maximum', async () => {
    const monitor = await seed();
    const measurements = { rows: Number.MIN_VALUE, sum: 0.1 + 0.2 };
    await insertBeats(
      pool,
      monitor,
      [0, 1, 2].map((hour) => ({ atMs: daysAgo(2) + hour * HOUR_MS, measurements })),
    );
    await beginSumsAt(pool, daysAgo(2));
    await sumUpUntil(pool, daysAgo(1));
    for (const [measurement, value] of Object.entries(measurements)) {
      const { buckets } = await readSeries(
        pool,
        { projectId: monitor.projectId, monitorId: monitor.monitorId },
        { fromMs: daysAgo(2), toMs: daysAgo(1), measurement, bucketSeconds: 86_400 },
      );
      expect(buckets.map(({ sums }) => sums?.mean)).toEqual([value]);
    }
  });

  it('the first gap of a day counts from the last beat of the day before, or of weeks before', async () => {
    const monitor = await seed();
    const times = [daysAgo(20) + 7, daysAgo(2) + HOUR_MS, daysAgo(1) + 3 * HOUR_MS];
    await insertBeats(
      pool,
      monitor,
      times.map((atMs) => ({ atMs })),
    );
    await beginSumsAt(pool, daysAgo(20));
    await sumUpUntil(pool, daysAgo(1));
    const { projectId, monitorId } = monitor;
    const { buckets } = await readSeries(
      pool,
      { projectId, monitorId },
      { fromMs: daysAgo(20), toMs: daysAgo(0), measurement: 'beatGapSeconds', bucketSeconds: 86_400 },
    );
    const gaps = buckets.flatMap(({ sums }) => (sums ? [sums.mean] : []));
    expect(gaps).toEqual([(18 * DAY_MS + HOUR_MS - 7) / 1000, (26 * HOUR_MS) / 1000]);
  });
});

describe('once', () => {
  /** What a process that never fails makes of the same beats. */
  async function seedTwins(): Promise<SeedMonitor[]> {
    const monitors = await seedMonitors(pool, fixture.project, 30);
    for (const monitor of monitors) await insertBeats(pool, monitor, measuredDay(daysAgo(2)));
    await beginSumsAt(pool, daysAgo(2));
    return monitors;
  }
  async function expectEachOnce(monitors: readonly SeedMonitor[]): Promise<void> {
    const [first, ...others] = await Promise.all(monitors.map((monitor) => bucketsOf(pool, monitor)));
    expect(first).toHaveLength(48);
    for (const other of others) expect(other).toEqual(first);
    // 47 gaps and 48 numbers of each.
    const { rows } = await pool.query('select sum(count)::integer as sum from observation_buckets');
    expect(rows[0]?.sum).toBe(monitors.length * 95);
  }

  it('sweepers that sum up at once count each observation once', async () => {
    const monitors = await seedTwins();
    const until = async () => (await readSummedUntil(pool)).summedMs >= daysAgo(1);
    const sweeper = () =>
      waitFor(
        async () => {
          if (await until()) return true;
          await sumUpStep(pool, { monitors: 3, observations: 100 });
          return false;
        },
        { what: 'the day is summed up', intervalMs: 1 },
      );
    await Promise.all([sweeper(), sweeper(), sweeper()]);
    await expectEachOnce(monitors);
  });

  it('a sweeper that dies after any of its statements leaves nothing, and the next one goes on', async () => {
    const monitors = await seedTwins();
    const isThere = async () => (await readSummedUntil(pool)).summedMs >= daysAgo(1);
    let deaths = 0;
    let statements = 1;
    await waitFor(
      async () => {
        if (await isThere()) return true;
        const result = await sumUpStep(dyingAfter(statements), { monitors: 10, observations: 1_000 }).catch(
          (error: Error) => error.message,
        );
        if (result === 'died') {
          deaths += 1;
          statements += 1;
        } else statements = 1;
        return false;
      },
      { what: 'the day is summed up', intervalMs: 1 },
    );
    // Three stretches, each with a death after each of its seven statements.
    expect(deaths).toBeGreaterThanOrEqual(21);
    await expectEachOnce(monitors);
  });

  /** Connections that the server loses after so many statements. */
  function dyingAfter(statements: number): Pick<Pool, 'connect'> {
    let left = statements;
    const connect = async () => {
      const connection = await pool.connect();
      return new Proxy(connection, {
        get(target, name) {
          if (name === 'release') return () => target.release(new Error('died'));
          if (name !== 'query') return Reflect.get(target, name);
          return async (...query: [string, unknown[]]) => {
            const answer = await target.query(...query);
            left -= 1;
            // A process that dies after COMMIT has done its step.
            if (left > 0 || query[0] === 'commit') return answer;
            throw new Error('died');
          };
        },
      });
    };
    return { connect } as Pick<Pool, 'connect'>;
  }

  it('a beat that commits late is waited for, and counts', async () => {
    const monitor = await seed();
    await beginSumsAt(pool, daysAgo(2));
    const late = await pool.connect();
    const steps: string[] = [];
    try {
      await late.query('begin');
      // As a beat does, which stamps its live row first.
      await touchLive(late, monitor);
      await insertBeats(late, monitor, [{ atMs: daysAgo(1) - 1, measurements: { rows: 1 } }]);
      for (let step = 0; step < 3; step += 1) steps.push(await sumUpStep(pool, MANY));
      await late.query('commit');
    } finally {
      late.release();
    }
    expect(steps).toEqual(['worked', 'waiting', 'waiting']);
    await sumUpUntil(pool, daysAgo(1));
    expect(await bucketsOf(pool, monitor)).toMatchObject([{ measurement: 'rows', count: 1 }]);
  });

  it('a day that began to close in another cluster, whose ids were higher, is summed up after a restore', async () => {
    const monitor = await seed();
    await insertBeats(pool, monitor, measuredDay(daysAgo(2)));
    await beginSumsAt(pool, daysAgo(2));
    await pool.query(
      `update observation_sums set closing_xid = (pg_current_xact_id()::text::bigint + 1000000000)::text::xid8`,
    );
    expect(await sumUpStep(pool, MANY)).toBe('worked');
    await sumUpUntil(pool, daysAgo(1));
    expect(await bucketsOf(pool, monitor)).toHaveLength(48);
  });

  it('days end where they do in UTC, whatever time zone the database has', async () => {
    await pool.query(`do $$ begin
      execute format('alter database %I set timezone = %L', current_database(), 'Europe/Berlin'); end $$`);
    const berlin = openPool({ databaseUrl: fixture.databaseUrl, size: 1, applicationName: 'test' });
    const end = async () =>
      (await berlin.query<{ until: Date }>('select until from observation_sums')).rows[0]?.until;
    await beginSumsAt(pool, Date.parse('2025-10-01T00:00:00Z'));
    await sumUpStep(berlin, MANY);
    expect(await end()).toEqual(new Date('2025-11-02T00:00:00Z'));
    await beginSumsAt(pool, daysAgo(3));
    await sumUpStep(berlin, MANY);
    // Ten minutes after the end of a day.
    expect(await end()).toEqual(new Date(Math.floor((Date.now() - 600_000) / DAY_MS) * DAY_MS));
    await berlin.end();
  });

  it('a day that is not over is not summed up', async () => {
    await beginSumsAt(pool, daysAgo(0));
    await insertBeats(pool, await seed(), [{ atMs: daysAgo(0) }]);
    expect(await sumUpStep(pool, MANY)).toBe('waiting');
    expect(await countOf('observation_buckets')).toBe(0);
  });

  it('days that passed while no sweeper ran are summed up together, under one lease', async () => {
    const monitor = await seed();
    for (const days of [5, 4, 3, 2])
      await insertBeats(pool, monitor, measuredDay(daysAgo(days)), (5 - days) * 48 + 1);
    await beginSumsAt(pool, daysAgo(5));
    const holder = { owner: randomUUID(), signal: new AbortController().signal };
    const job = { name: 'observation_sums', everyMs: 0, step: createSums() };
    await waitFor(
      async () => {
        await runUnderLease(job, makeDeps(), holder);
        return (await readSummedUntil(pool)).summedMs >= daysAgo(1);
      },
      { what: 'all days are summed up' },
    );
    expect(await bucketsOf(pool, monitor)).toHaveLength(4 * 48);
  });
});

describe('before they are summed up', () => {
  it('observations are not dropped, however old they are, and a series has them before and after', async () => {
    const monitor = await seed();
    const name = await makePartition(pool, daysAgo(33));
    await makePartition(pool, daysAgo(32));
    await insertBeats(pool, monitor, measuredDay(daysAgo(33)));
    await insertBeats(pool, monitor, measuredDay(daysAgo(32)), 49);
    await beginSumsAt(pool, daysAgo(33));
    const { projectId, monitorId } = monitor;
    const readAll = () =>
      readSeries(
        pool,
        { projectId, monitorId },
        { fromMs: daysAgo(33), toMs: daysAgo(31), measurement: 'rows', bucketSeconds: 3600 },
      );
    const sweep = async () => {
      const deps = makeDeps();
      await sweepPartitions(deps);
      await watchSums(deps);
      const { values } = await deps.metrics.sumsLag.get();
      return values[0]?.value ?? -1;
    };
    const before = await readAll();
    expect(await sweep()).toBeGreaterThan(31 * 86_400);
    await expect(pool.query('select drop_partition($1, $2)', ['observations', name])).rejects.toThrow(
      `The rows of ${name} are not summed up yet`,
    );
    expect(await countOf('observations')).toBe(96);
    expect(await readAll()).toEqual(before);
    await sumUpUntil(pool, daysAgo(1));
    expect(await sweep()).toBeLessThan(86_400);
    expect(await countOf('observations')).toBe(0);
    const connection = await pool.connect();
    const left = (await listPartitions(connection, observations)).map((partition) => partition.name);
    connection.release();
    expect(left).not.toContain(name);
    expect(await readAll()).toEqual(before);
    expect(before.buckets.filter(({ sums }) => sums?.count === 2)).toHaveLength(48);
  });

  it('a day is not dropped during a step: beats would wait behind the drop, and the drop for the step', async () => {
    const name = await makePartition(pool, daysAgo(33));
    const [sweeper, step] = [await pool.connect(), await pool.connect()];
    try {
      await step.query('begin; select from observation_sums for update');
      expect(await dropPartitions(sweeper, observations)).toEqual({ names: [], failures: [] });
      await step.query('rollback');
      expect(await dropPartitions(sweeper, observations)).toEqual({ names: [name], failures: [] });
    } finally {
      step.release(true);
      sweeper.release();
    }
  });
});
