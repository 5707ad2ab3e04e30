// Observations that a plan does not keep are deleted, the oldest first, and no others.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { catalogueOf } from '../../src/domain/plan.ts';
import type { PlanId } from '../../src/domain/problem.ts';
import { toTime } from '../../src/domain/timestamp.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { createObservationSweep } from '../../src/sweeper/upkeep/sweep-observations.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { beginSumsAt, daysAgo, HOUR_MS, insertBeats, waitOutDay } from '../support/past-beats.ts';
import { type SeedMonitor, seedMonitor, seedMonitors, seedProject } from '../support/seed.ts';
import { makeParts } from '../support/sweeper-fixture.ts';

let fixture: ProjectFixture;
let pool: Pool;
beforeEach(async () => {
  await waitOutDay();
  fixture = await openProjectFixture();
  pool = fixture.pool;
});
afterEach(() => fixture?.close());

const findPlan = catalogueOf({
  free: { observationRetentionSeconds: 3 * 86_400 },
  smart: { storedObservations: 4 },
});

const LIMITS = { monitors: 2, observations: 3, statements: 2 };

async function sweepAll(limits = LIMITS, db = pool): Promise<number> {
  const parts = makeParts();
  const step = createObservationSweep(limits);
  while ((await step({ pool: db, slowPool: db, ...parts, findPlan })) === 'more');
  const { values } = await parts.metrics.rowsRetired.get();
  return values.find(({ labels }) => labels.what === 'observations_of_plan')?.value ?? 0;
}

async function monitorOn(plan: PlanId, live: Record<string, unknown> = {}): Promise<SeedMonitor> {
  return await seedMonitor(pool, await seedProject(pool, plan), { live });
}
const sequencesOf = async ({ monitorKey }: SeedMonitor): Promise<number[]> => {
  const { rows } = await pool.query<{ sequence: number }>(
    'select sequence from observations where monitor_key = $1 order by sequence',
    [monitorKey],
  );
  return rows.map(({ sequence }) => sequence);
};
/** Ten beats, at noon of each day, the last one yesterday. */
const DAYS = Array.from({ length: 10 }, (_, index) => ({ atMs: daysAgo(10 - index) + 12 * HOUR_MS }));
const ALL = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

it('whole days that the plan does not keep go, of every monitor of its organizations and of no others', async () => {
  const project = await seedProject(pool, 'free');
  const own = await seedMonitors(pool, project, 5, { live: { last_sequence: 10 } });
  const other = await monitorOn('builder', { last_sequence: 10 });
  for (const monitor of [...own, other]) await insertBeats(pool, monitor, DAYS);
  await beginSumsAt(pool, daysAgo(0));
  expect(await sweepAll()).toBe(5 * 7);
  // Three days ago it was some time of the day before that of the eighth.
  for (const monitor of own) expect(await sequencesOf(monitor)).toEqual([8, 9, 10]);
  expect(await sequencesOf(other)).toEqual(ALL);
  expect(await sweepAll()).toBe(0);
});

it('a plan that a newer version wrote deletes nothing', async () => {
  const unknown = await seedMonitor(pool, await seedProject(pool, 'of a newer version'), {
    live: { last_sequence: 10 },
  });
  const after = await monitorOn('free', { last_sequence: 10 });
  for (const monitor of [unknown, after]) await insertBeats(pool, monitor, DAYS);
  await beginSumsAt(pool, daysAgo(0));
  expect(await sweepAll()).toBe(7);
  expect(await sequencesOf(unknown)).toEqual(ALL);
});

it('a plan that keeps more ends the deletion at once, in the midst of a project too', async () => {
  const project = await seedProject(pool, 'free');
  const monitors = await seedMonitors(pool, project, 4, { live: { last_sequence: 10 } });
  for (const monitor of monitors) await insertBeats(pool, monitor, DAYS);
  await beginSumsAt(pool, daysAgo(0));
  const parts = { pool, slowPool: pool, ...makeParts(), findPlan };
  const step = createObservationSweep({ monitors: 2, observations: 3, statements: 1 });
  const countLeft = async () => (await Promise.all(monitors.map(sequencesOf))).flat().length;
  while ((await countLeft()) === 40) expect(await step(parts)).toBe('more');
  expect(await countLeft()).toBe(40 - 2 * 3);
  await pool.query('update organizations set plan = $2 where organization_id = $1', [
    project.organizationId,
    'scale',
  ]);
  while ((await step(parts)) === 'more');
  expect(await countLeft()).toBe(40 - 2 * 3);
});

it('a monitor whose rows somebody holds does not hold up the others, and the next pass takes it', async () => {
  const project = await seedProject(pool, 'free');
  const monitors = await seedMonitors(pool, project, 5, { live: { last_sequence: 10 } });
  for (const monitor of monitors) await insertBeats(pool, monitor, DAYS);
  await beginSumsAt(pool, daysAgo(0));
  const [held, ...others] = monitors.toSorted((a, b) => (a.monitorKey < b.monitorKey ? -1 : 1));
  if (!held) throw new Error('There is no monitor.');
  const holder = await pool.connect();
  try {
    await holder.query('begin');
    await holder.query('select from observations where monitor_key = $1 for update', [held.monitorKey]);
    const impatient = {
      connect: async () => {
        const connection = await pool.connect();
        await connection.query("set lock_timeout = '100ms'");
        return connection;
      },
      query: pool.query.bind(pool),
    } as unknown as Pool;
    expect(await sweepAll(undefined, impatient)).toBe(4 * 7);
  } finally {
    await holder.query('rollback');
    holder.release();
  }
  for (const monitor of others) expect(await sequencesOf(monitor)).toEqual([8, 9, 10]);
  expect(await sequencesOf(held)).toEqual(ALL);
  expect(await sweepAll()).toBe(7);
});

it('of a monitor with more observations than the plan keeps the oldest go', async () => {
  const many = await monitorOn('smart', { last_sequence: 10 });
  const few = await monitorOn('smart', { last_sequence: 4 });
  await insertBeats(pool, many, DAYS);
  await insertBeats(pool, few, DAYS.slice(0, 4));
  await beginSumsAt(pool, daysAgo(0));
  expect(await sweepAll()).toBe(6);
  expect(await sequencesOf(many)).toEqual([7, 8, 9, 10]);
  expect(await sequencesOf(few)).toEqual([1, 2, 3, 4]);
});

it('nothing goes before it is summed up', async () => {
  const old = await monitorOn('free', { last_sequence: 10 });
  const many = await monitorOn('smart', { last_sequence: 10 });
  for (const monitor of [old, many]) await insertBeats(pool, monitor, DAYS);
  await beginSumsAt(pool, daysAgo(8));
  expect(await sweepAll()).toBe(4);
  for (const monitor of [old, many]) expect(await sequencesOf(monitor)).toEqual(ALL.slice(2));
});

it('sweepers that delete at once delete the same rows once', async () => {
  const monitors = await seedMonitors(pool, await seedProject(pool, 'free'), 7, {
    live: { last_sequence: 10 },
  });
  for (const monitor of monitors) await insertBeats(pool, monitor, DAYS);
  await beginSumsAt(pool, daysAgo(0));
  const counts = await Promise.all([sweepAll(), sweepAll(), sweepAll()]);
  expect(counts.reduce((sum, count) => sum + count)).toBe(7 * 7);
  const { rows } = await pool.query('select min(received_at) as first from observations');
  expect(rows[0]?.first).toEqual(new Date(Date.parse(toTime(daysAgo(3))) + 12 * HOUR_MS));
});
