// What a step that sums up observations reads, and what it does with observations that cannot be summed up.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readSummedUntil } from '../../src/store/beats/observation-sums.ts';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import type { StepLimits } from '../../src/store/upkeep/observation-hours.ts';
import { createSums } from '../../src/sweeper/upkeep/sum-up-observations.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import {
  beginSumsAt,
  bucketsOf,
  daysAgo,
  endSumsAt,
  everyHalfHour,
  HOUR_MS,
  insertBeats,
  insertOthers,
  makePartition,
  sumUpUntil,
  waitOutDay,
} from '../support/past-beats.ts';
import { seedMonitor, seedMonitors } from '../support/seed.ts';
import { makeParts } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;
let pool: Pool;

beforeEach(async () => {
  await waitOutDay();
  fixture = await openProjectFixture();
  pool = fixture.pool;
});
afterEach(() => fixture?.close());

/** What summing up reads of a partition. */
async function readsOf(name: string, untilMs: number, limits: StepLimits) {
  const sweeper = openPool({ databaseUrl: fixture.databaseUrl, size: 1, applicationName: 'test' });
  const count = async () => {
    await sweeper.query('select pg_stat_force_next_flush()');
    const { rows } = await sweeper.query<{ fetched: number; scanned: number; pages: number }>(
      `select t.idx_tup_fetch::integer as fetched, t.seq_tup_read::integer as scanned,
         (io.heap_blks_read + io.heap_blks_hit)::integer as pages
       from pg_stat_user_tables t join pg_statio_user_tables io using (relid) where t.relname = $1`,
      [name],
    );
    return rows[0] ?? { fetched: Number.NaN, scanned: Number.NaN, pages: Number.NaN };
  };
  const before = await count();
  await sumUpUntil(sweeper, untilMs, limits);
  const after = await count();
  await sweeper.end();
  return {
    fetched: after.fetched - before.fetched,
    scanned: after.scanned - before.scanned,
    pages: after.pages - before.pages,
  };
}

describe('the reading of observations', () => {
  it('a small part of a table is read by index: each observation once, with two more for each monitor', async () => {
    const monitors = await seedMonitors(pool, fixture.project, 20);
    const name = await makePartition(pool, daysAgo(2), daysAgo(1));
    await insertOthers(pool, fixture.project.projectId, { fromMs: daysAgo(2), count: 40_000 });
    for (const monitor of monitors) await insertBeats(pool, monitor, everyHalfHour(daysAgo(2)));
    await beginSumsAt(pool, daysAgo(2));
    const reads = await readsOf(name, daysAgo(1), { monitors: 1, observations: 20_000 });
    expect(reads).toMatchObject({ scanned: 0, fetched: 20 * (48 + 2 + 1) });
  });

  it('of many monitors whose observations came in turn, pages are read in turn and not for each observation', async () => {
    await seedMonitors(pool, fixture.project, 1_000);
    const name = await makePartition(pool, daysAgo(2), daysAgo(1));
    await pool.query(
      `insert into observations (project_id, monitor_key, sequence, received_at, kind)
       select project_id, monitor_key, beat + 1, to_timestamp($1) + beat * interval '30 minutes', 'success'
       from generate_series(0, 47) as beat, monitors order by beat`,
      [daysAgo(2) / 1000],
    );
    await beginSumsAt(pool, daysAgo(2));
    const { pages, scanned } = await readsOf(name, daysAgo(1), {
      monitors: 50_000,
      observations: 16_000_000,
    });
    // Three pieces of at most 20,000.
    expect(scanned).toBe(3 * 48_000);
    // Most of them for the first and the last observation of each monitor.
    expect(pages).toBeLessThan(48_000 / 5);
  });

  it('of a monitor with very many observations each is read once, in parts', async () => {
    const monitor = await seedMonitor(pool, fixture.project);
    const name = await makePartition(pool, daysAgo(2), daysAgo(1));
    await insertOthers(pool, fixture.project.projectId, { fromMs: daysAgo(2), count: 200_000 });
    const beats = Array.from({ length: 5_000 }, (_, index) => ({ atMs: daysAgo(2) + index * 10_000 }));
    await insertBeats(pool, monitor, beats);
    await beginSumsAt(pool, daysAgo(2));
    const reads = await readsOf(name, daysAgo(1), { monitors: 10, observations: 500 });
    // Each part asks where the day ends.
    expect(reads).toMatchObject({ scanned: 0 });
    expect(reads.fetched).toBeLessThan(5_000 + 10 * 10);
    const sums = await bucketsOf(pool, monitor);
    expect(sums.map(({ count, mean }) => [count, mean])).toEqual([
      [359, 10],
      ...Array(12).fill([360, 10]),
      [320, 10],
    ]);
  });

  it('a table of many days is not read from its beginning for each day', async () => {
    const monitors = await seedMonitors(pool, fixture.project, 5);
    const name = await makePartition(pool, daysAgo(12), daysAgo(1));
    await insertOthers(pool, fixture.project.projectId, { fromMs: daysAgo(2), count: 40_000 });
    for (const monitor of monitors) await insertBeats(pool, monitor, everyHalfHour(daysAgo(12), 11 * 48));
    await beginSumsAt(pool, daysAgo(12));
    await sumUpUntil(pool, daysAgo(2));
    const { fetched } = await readsOf(name, daysAgo(1), { monitors: 1, observations: 20_000 });
    expect(fetched).toBeLessThan(5 * 60);
  });
});

describe('observations that cannot be summed up', () => {
  const runUntil = async (dayMs: number, step: () => Promise<unknown>) => {
    await endSumsAt(pool, dayMs);
    await waitFor(
      async () => {
        await step();
        return (await readSummedUntil(pool)).summedMs >= dayMs;
      },
      { what: 'the days are summed up', intervalMs: 1 },
    );
  };

  it('those of one monitor that has a fault are skipped and logged, and all others are summed up', async () => {
    const monitors = await seedMonitors(pool, fixture.project, 12);
    for (const monitor of monitors) await insertBeats(pool, monitor, everyHalfHour(daysAgo(2)));
    const [, faulty] = monitors;
    if (!faulty) throw new Error('no monitor');
    await pool.query(
      `update observations set measurements = '{"rows": "none"}' where monitor_key = $1 and sequence = 3`,
      [faulty.monitorKey],
    );
    await beginSumsAt(pool, daysAgo(2));
    const parts = makeParts();
    const errors: object[] = [];
    const log = { ...parts.log, warn: () => undefined, error: (fields: object) => errors.push(fields) };
    const deps = { ...parts, log: log as unknown as typeof parts.log, pool, slowPool: pool };
    const step = createSums({ most: 1_000, least: 48, failures: 3 });
    await runUntil(daysAgo(1), () => step(deps));
    expect(errors).toMatchObject([{ monitorKey: faulty.monitorKey, observations: 48 }]);
    for (const monitor of monitors)
      expect(await bucketsOf(pool, monitor)).toHaveLength(monitor === faulty ? 0 : 24);
  });

  it('a piece that takes too long is tried in smaller ones, and nothing counts twice', async () => {
    const monitors = await seedMonitors(pool, fixture.project, 12);
    for (const monitor of monitors) await insertBeats(pool, monitor, everyHalfHour(daysAgo(2)));
    await beginSumsAt(pool, daysAgo(2));
    const keys = monitors.map(({ monitorKey }) => monitorKey).sort();
    const step = createSums({ most: 1_000, least: 20, failures: 1_000_000, statementMs: 300 });
    const deps = { ...makeParts(), pool, slowPool: pool };
    const run = () => step(deps).catch(() => undefined);
    await endSumsAt(pool, daysAgo(1));
    // A transaction that began before the days are closed would keep them open.
    expect(await step(deps)).toBe('more');
    const holder = await pool.connect();
    try {
      await holder.query('begin');
      await holder.query(
        `insert into observation_buckets (project_id, monitor_key, measurement, bucket_start, count)
         values ($1, $2, 'beatGapSeconds', to_timestamp($3), 0)`,
        [fixture.project.projectId, keys[7], (daysAgo(2) + 20 * HOUR_MS) / 1000],
      );
      await waitFor(
        async () => {
          await run();
          const { rows } = await pool.query('select done_monitor_key, done_sequence from observation_sums');
          return rows[0]?.done_monitor_key === keys[7] && rows[0]?.done_sequence === 40;
        },
        { what: 'all before the held hour is summed up', intervalMs: 1 },
      );
      await holder.query('rollback');
    } finally {
      holder.release();
    }
    await runUntil(daysAgo(1), run);
    for (const monitor of monitors) {
      const counts = (await bucketsOf(pool, monitor)).map(({ count }) => count);
      expect(counts).toEqual([1, ...Array(23).fill(2)]);
    }
  });
});

describe('measurements', () => {
  const kept = async (limits: StepLimits) => {
    const monitor = await seedMonitor(pool, fixture.project);
    await pool.query(`update monitors set measurements = '{"ruled": {}}' where monitor_key = $1`, [
      monitor.monitorKey,
    ]);
    const beats = Array.from({ length: 100 }, (_, index) => ({
      atMs: daysAgo(2) + index * 60_000,
      measurements: { often: 1, [`key${index}`]: 1, ...(index === 99 && { ruled: 1 }) },
    }));
    await insertBeats(pool, monitor, beats);
    await beginSumsAt(pool, daysAgo(2));
    await sumUpUntil(pool, daysAgo(1), limits);
    const rows = await bucketsOf(pool, monitor);
    return [...new Set(rows.map(({ measurement }) => measurement as string))];
  };

  it.each([
    ['at once', 1_000],
    ['in parts', 30],
  ])('of a monitor 64 are summed up for a day, and those with rules: %s', async (_, observations) => {
    const keys = await kept({ monitors: 10, observations });
    expect(keys).toHaveLength(64 + 2);
    expect(keys).toEqual(expect.arrayContaining(['beatGapSeconds', 'often', 'ruled']));
  });
});
