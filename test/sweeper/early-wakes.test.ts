// Wakes in the index that come before the next wake of their monitor, because beats have put it off.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { startPingServer } from '../ingest/ping-fixture.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedMonitor, seedMonitors } from '../support/seed.ts';
import { incidentsOf, liveOf } from '../support/stored-rows.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';

let fixture: ProjectFixture;

beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

const INTERVAL_MS = 600_000;

/** Monitors that have just beaten, whose stored wake comes in `wakeInMs`. */
async function seedRunning(count: number, wakeInMs: number): Promise<SeedMonitor[]> {
  const nowMs = await readNow(fixture.pool);
  return await seedMonitors(fixture.pool, fixture.project, count, {
    configuration: { interval_seconds: INTERVAL_MS / 1000, grace_seconds: 60 },
    live: {
      anchor_ms: nowMs,
      last_beat_ms: nowMs,
      deadline_ms: nowMs + INTERVAL_MS + 60_000,
      wake_ms: nowMs + wakeInMs,
    },
  });
}

it.each([
  ['a plain beat', undefined],
  ['a beat with a message', 'done'],
])('%s leaves a wake in the index that is still far, and moves one that is near', async (_, body) => {
  const [far, near] = [
    await seedRunning(1, 0.8 * INTERVAL_MS),
    await seedRunning(1, 0.3 * INTERVAL_MS),
  ].flat();
  if (!far || !near) throw new Error('no monitors');
  const before = await liveOf(fixture.pool, far);
  const server = await startPingServer(fixture.databaseUrl);
  try {
    for (const { address } of [far, near]) {
      const answer = await fetch(`${server.url}/ping/${address}`, { method: 'POST', body });
      expect(answer.status).toBe(200);
    }
  } finally {
    await server.close();
  }
  const after = await liveOf(fixture.pool, far);
  expect(after.wake_ms).toBe(before.wake_ms);
  expect(after.deadline_ms).toBe(after.last_beat_ms + INTERVAL_MS + 60_000);
  const moved = await liveOf(fixture.pool, near);
  expect(moved.wake_ms).toBe(moved.last_beat_ms + INTERVAL_MS);
});

it('monitors that two sweepers wake before their time open nothing, and are woken next at their late mark', async () => {
  const monitors = await seedRunning(200, -100);
  await moveClock(fixture.pool);
  await Promise.all([drain(makeSweep(fixture.pool)), drain(makeSweep(fixture.pool))]);
  for (const monitor of monitors) {
    const live = await liveOf(fixture.pool, monitor);
    expect(live.wake_ms).toBe(live.deadline_ms - 60_000);
    expect(live.open_incidents).toBe(0);
  }
  expect(await incidentsOf(fixture.pool, monitors[0] as SeedMonitor)).toEqual([]);
});
