// What time does to a monitor whose maintenance comes again and again: a sweeper looks at each begin and end of a window.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { MonitorConfiguration } from '../../src/domain/monitor.ts';
import { listMonitors } from '../../src/store/monitors/monitor-list.ts';
import { readFeedPage } from '../../src/store/monitors/status-feed.ts';
import { type History, makeHistory } from '../api/explain-history.ts';
import { type ClockedFixture, openClockedFixture } from '../support/clocked-fixture.ts';
import type { VirtualClock } from '../support/virtual-clock.ts';

let fixture: ClockedFixture;
let clock: VirtualClock;
beforeAll(async () => {
  fixture = await openClockedFixture();
  clock = fixture.clock;
});
afterAll(() => fixture?.close());

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const nightly = { cron: '0 2 * * *', timeZone: 'UTC', durationSeconds: 7_200, reason: 'Backup' };

/** A monitor that was made at midnight. */
async function begin(configuration: Partial<MonitorConfiguration> = {}): Promise<History> {
  await clock.pass(DAY - (clock.nowMs % DAY));
  return await makeHistory(fixture, clock, { maintenanceSchedules: [nightly], ...configuration });
}

/** The clock stands so long after the last midnight, and a sweeper has looked whenever there was something to do. */
async function until(history: History, ms: number): Promise<void> {
  const untilMs = clock.nowMs - (clock.nowMs % DAY) + ms;
  while (clock.nowMs < untilMs) {
    const { wakeMs = untilMs } = (await history.read()).live;
    await clock.pass(Math.min(Math.max(wakeMs, clock.nowMs + 1), untilMs) - clock.nowMs);
    await history.sweep();
  }
}

async function isInMaintenance({ name }: History): Promise<boolean> {
  const { monitors } = await listMonitors(
    clock.pool,
    name.projectId,
    { health: 'maintenance' },
    { limit: 100 },
  );
  return monitors.some(({ monitorId }) => monitorId === name.monitorId);
}

it('each begin and end of a window is a change for the status feed, and the search by health knows the windows of every day', async () => {
  const history = await begin();
  const scope = { organizationId: fixture.project.organizationId, projectId: history.name.projectId };
  const changed = async (since: Awaited<ReturnType<typeof readFeedPage>>) => {
    const page = await readFeedPage(clock.pool, {
      scope,
      limit: 100,
      since: since.snapshot,
      history: since.history,
    });
    return { page, ids: page.items.map(({ monitor }) => monitor.monitorId) };
  };
  let last = await readFeedPage(clock.pool, { scope, limit: 100 });
  for (const day of [0, DAY]) {
    await until(history, day + 2 * HOUR - MINUTE);
    expect([day, await isInMaintenance(history)]).toEqual([day, false]);
    last = (await changed(last)).page;
    await until(history, 2 * HOUR);
    expect([day, await isInMaintenance(history)]).toEqual([day, true]);
    const begun = await changed(last);
    expect(begun.ids).toEqual([history.name.monitorId]);
    await until(history, 4 * HOUR);
    expect([day, await isInMaintenance(history)]).toEqual([day, false]);
    const ended = await changed(begun.page);
    expect(ended.ids).toEqual([history.name.monitorId]);
    last = ended.page;
  }
});

it('a beat that comes before the sweeper at a begin or an end of a window hides it from nobody', async () => {
  const history = await begin({ intervalSeconds: 60, graceSeconds: 60 });
  for (const [atMs, expected] of [
    [HOUR, false],
    [2 * HOUR, true],
    [4 * HOUR, false],
    [DAY + 2 * HOUR, true],
  ] as const) {
    await clock.pass(atMs - (clock.nowMs % DAY));
    await history.beat('success');
    expect([atMs, await isInMaintenance(history)]).toEqual([atMs, expected]);
  }
});

it('a change that takes the running window away reports no run whose end an outage may have swallowed', async () => {
  const history = await begin({ intervalSeconds: 86_400, maxRuntimeSeconds: 3_600 });
  await until(history, 90 * MINUTE);
  await history.beat('start');
  await until(history, 170 * MINUTE);
  await history.haveOutage(10 * MINUTE);
  await until(history, 3 * HOUR);
  await history.patch({ maintenanceSchedules: null });
  await until(history, 5 * HOUR);
  expect((await history.read()).openIncidents).toEqual([]);
});

it('a suspended organization has no wakes for windows', async () => {
  const history = await begin();
  await history.setState('canceled');
  await until(history, 5 * HOUR);
  expect((await history.read()).live.wakeMs).toBeUndefined();
  await history.setState('active');
  await history.beat('success');
  expect((await history.read()).live.wakeMs).toBe(clock.nowMs - 5 * HOUR + DAY + 2 * HOUR);
});

it('a job that dies in a window is found at its end, and one that beats after it never alerts', async () => {
  const configuration = { intervalSeconds: 3_600, graceSeconds: 600 };
  const dead = await begin(configuration);
  await until(dead, 90 * MINUTE);
  await dead.beat('success');
  await until(dead, 4 * HOUR - 1);
  expect((await dead.read()).openIncidents).toEqual([]);
  await until(dead, 4 * HOUR);
  expect((await dead.read()).openIncidents).toMatchObject([
    { kind: 'missed_deadline', deadlineMs: clock.nowMs },
  ]);
  const alive = await begin(configuration);
  await until(alive, 90 * MINUTE);
  await alive.beat('success');
  await until(alive, 4 * HOUR - MINUTE);
  await alive.beat('success');
  await until(alive, 5 * HOUR);
  expect((await alive.read()).openIncidents).toEqual([]);
});

it('a fail in a window opens nothing, and one after it does', async () => {
  const history = await begin({ intervalSeconds: 86_400 });
  await until(history, 3 * HOUR);
  await history.beat('fail');
  expect((await history.read()).openIncidents).toEqual([]);
  await until(history, 4 * HOUR);
  await history.beat('fail');
  expect((await history.read()).openIncidents).toMatchObject([{ kind: 'reported_failure' }]);
});

it('a run that is overdue in a window is reported at its end', async () => {
  const history = await begin({ intervalSeconds: 86_400, maxRuntimeSeconds: 3_600 });
  await until(history, 90 * MINUTE);
  await history.beat('start');
  await until(history, 4 * HOUR - 1);
  expect((await history.read()).openIncidents).toEqual([]);
  await until(history, 4 * HOUR);
  expect((await history.read()).openIncidents).toMatchObject([{ kind: 'overdue_run' }]);
});

it('a window that a person ends is over, and the one of the next day comes', async () => {
  const history = await begin({ intervalSeconds: 3_600, graceSeconds: 600 });
  await until(history, 90 * MINUTE);
  await history.beat('success');
  await until(history, 3 * HOUR);
  await history.act('exit_maintenance');
  expect(await isInMaintenance(history)).toBe(false);
  expect((await history.read()).live.deadlineMs).toBe(clock.nowMs + 70 * MINUTE);
  await until(history, 4 * HOUR);
  await history.beat('success');
  for (let hour = 5; hour < 26; hour += 1) {
    await until(history, hour === 24 ? DAY : (hour % 24) * HOUR);
    await history.beat('success');
  }
  await until(history, 2 * HOUR);
  expect(await isInMaintenance(history)).toBe(true);
});
