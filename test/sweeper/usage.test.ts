// Usage by month: each thing counts once, whatever dies and however many count at once.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newId } from '../../src/domain/id.ts';
import { findPlan } from '../../src/domain/plan.ts';
import { toTime } from '../../src/domain/timestamp.ts';
import { insertDeliveries } from '../../src/store/deliveries/deliveries.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { retireRateWindows, settleRateWindows } from '../../src/store/tenancy/rate-windows.ts';
import { listUsage, type UsageRecord } from '../../src/store/tenancy/usage.ts';
import { countUsageStep } from '../../src/store/upkeep/usage-days.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { rowsReadBy } from '../support/pages.ts';
import {
  beginSumsAt,
  DAY_MS,
  daysAgo,
  HOUR_MS,
  insertBeats,
  sumUpUntil,
  waitOutDay,
} from '../support/past-beats.ts';
import { seedEndpoint, seedMonitors, seedProject } from '../support/seed.ts';
import { makeDelivery } from '../support/sweeper-fixture.ts';

let fixture: ProjectFixture;
let pool: Pool;

beforeEach(async () => {
  await waitOutDay();
  fixture = await openProjectFixture();
  pool = fixture.pool;
});
afterEach(() => fixture?.close());

const periodOf = (ms: number) => toTime(ms).slice(0, 7);
const NOTHING = { activeMonitors: 0, beats: 0, deliveries: 0, storedObservations: 0, apiRequests: 0 };
const read = (owner: { organizationId: string; projectId?: string } = fixture.project) =>
  listUsage(pool, { organizationId: owner.organizationId }, { limit: 100 });
const total = (records: readonly UsageRecord[], of: keyof typeof NOTHING) =>
  records.reduce((sum, record) => sum + record[of], 0);

async function countFrom(dayMs: number): Promise<void> {
  await pool.query('update usage_count set day = $1, done_project_id = null', [toTime(dayMs)]);
}
const hasMore = async () => (await countUsageStep(pool, { findPlan, limit: 1 })) === 'worked';

describe('beats', () => {
  it('count in the month in which they came, when their day is summed up', async () => {
    const monitors = await seedMonitors(pool, fixture.project, 2);
    const monthMs = Date.parse(`${periodOf(daysAgo(1))}-01T00:00:00Z`);
    const beats = [monthMs - 2 * HOUR_MS, monthMs - 1, monthMs, monthMs + 5].map((atMs) => ({ atMs }));
    for (const monitor of monitors) await insertBeats(pool, monitor, beats);
    await beginSumsAt(pool, monthMs - DAY_MS);
    await sumUpUntil(pool, monthMs + DAY_MS);
    expect(await read()).toEqual([
      { ...NOTHING, period: periodOf(monthMs - 1), beats: 4 },
      { ...NOTHING, period: periodOf(monthMs), beats: 4 },
    ]);
    expect(await listUsage(pool, fixture.project, { after: periodOf(monthMs - 1), limit: 1 })).toMatchObject([
      { period: periodOf(monthMs) },
    ]);
    expect(await read(await seedProject(pool))).toEqual([]);
  });
});

describe('a day', () => {
  it('has the deliveries that were made in it, and the monitors and observations that there are', async () => {
    const other = await seedProject(pool);
    const monitors = await seedMonitors(pool, fixture.project, 3, { live: { last_sequence: 12 } });
    await seedMonitors(pool, fixture.project, 1, { configuration: { lifecycle: 'archived' } });
    await seedMonitors(pool, fixture.project, 1);
    const [monitor] = monitors;
    if (!monitor) throw new Error('no monitor');
    // The first two are gone; the one of the second monitor is not summed up yet, the third has none that is kept.
    const beats = Array.from({ length: 10 }, (_, hour) => ({ atMs: daysAgo(2) + hour * HOUR_MS }));
    await insertBeats(pool, monitor, beats, 3);
    await beginSumsAt(pool, daysAgo(2));
    await sumUpUntil(pool, daysAgo(1));
    if (monitors[1]) await insertBeats(pool, monitors[1], [{ atMs: daysAgo(1) + 1 }], 12);
    const endpoint = await seedEndpoint(fixture, 'https://example.com/');
    const times = [daysAgo(1) - 1, daysAgo(1), daysAgo(0) - 1, daysAgo(0)];
    const rows = times.map((createdMs) =>
      makeDelivery(fixture.project, endpoint, { createdMs, deliveryId: newId('dlv', createdMs) }),
    );
    await insertDeliveries(pool, rows, Date.now());
    await countFrom(daysAgo(1));
    while (await hasMore());
    const record = (await read()).find(({ period }) => period === periodOf(daysAgo(1)));
    expect(record).toMatchObject({ deliveries: 2, activeMonitors: 4, storedObservations: 11 });
    expect(total(await read(other), 'deliveries')).toBe(0);
  });

  it('counts once when several sweepers count, die and begin again', async () => {
    const endpoint = await seedEndpoint(fixture, 'https://example.com/');
    for (let project = 0; project < 5; project += 1) await seedProject(pool);
    const createdMs = daysAgo(1) + 1;
    await insertDeliveries(pool, [makeDelivery(fixture.project, endpoint, { createdMs })], createdMs);
    await countFrom(daysAgo(2));
    const dying: Pick<Pool, 'connect'> = {
      async connect() {
        const connection = await pool.connect();
        const query = async (text: string, values?: unknown[]) => {
          if (text === 'commit') throw new Error('died');
          return await connection.query(text, values);
        };
        return new Proxy(connection, {
          get: (target, name) => (name === 'query' ? query : Reflect.get(target, name)),
        });
      },
    };
    const sweeper = async () => {
      do await expect(countUsageStep(dying, { findPlan, limit: 2 })).rejects.toThrow('died');
      while (await hasMore());
    };
    await Promise.all([sweeper(), sweeper(), sweeper()]);
    expect(total(await read(), 'deliveries')).toBe(1);
    const { rows } = await pool.query('select day from usage_count');
    expect(rows[0]?.day).toEqual(new Date(daysAgo(0)));
  });
});

describe('calls', () => {
  const minute = (ms: number) => Math.floor(ms / 60_000);
  const windows = async () =>
    (await pool.query('select count(*)::integer as n from rate_windows')).rows[0]?.n;

  it('of minutes that are over count once, also those that an api settles late and those in no project', async () => {
    const { projectId, organizationId } = fixture.project;
    const pastMs = Date.now() - 10 * 60_000;
    const now = { scopeId: projectId, window: minute(Date.now()), spent: 100 };
    const past = { scopeId: projectId, window: minute(pastMs), spent: 7 };
    const older = { scopeId: organizationId, window: past.window - 3, spent: 5 };
    await settleRateWindows(pool, [past, older, now]);
    await Promise.all(Array.from({ length: 3 }, () => retireRateWindows(pool, 1)));
    await retireRateWindows(pool, 10);
    expect(total(await read(), 'apiRequests')).toBe(12);
    await settleRateWindows(pool, [past]);
    await retireRateWindows(pool, 10);
    expect(total(await read(), 'apiRequests')).toBe(19);
    expect(total(await listUsage(pool, fixture.project, { limit: 9 }), 'apiRequests')).toBe(14);
    expect(await windows()).toBe(1);
  });

  it('of very many minutes count in bounded pieces, which read no more than they delete', async () => {
    await pool.query(
      `insert into rate_windows (project_id, window_start, used)
       select ('00000000-0000-0000-0000-' || lpad(scope::text, 12, '0'))::uuid, $1 + minute, 1
       from generate_series(1, 1000) as scope, generate_series(1, 20) as minute`,
      [minute(Date.now()) - 60],
    );
    await pool.query('vacuum analyze rate_windows');
    const left = [await windows()];
    const read = await rowsReadBy(pool, 'retire-rate-windows', (db) => retireRateWindows(db, 100));
    left.push(await windows());
    // Measuring has deleted as many.
    expect(left).toEqual([20_000, 19_800]);
    expect(read).toBeLessThan(500);
    expect(await retireRateWindows(pool, 100)).toBe(100);
  });
});
