// For how long the beat path caches monitors.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { seedMonitor } from '../support/seed.ts';

const MINUTE_MS = 60_000;

let fixture: ProjectFixture;

beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

it('a cached monitor of the shortest interval is reused for ten minutes and then reloaded with its new plan', async () => {
  const { pool, project } = fixture;
  let nowMs = 0;
  const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: MINUTE_MS, now: () => nowMs });
  const { address } = await seedMonitor(pool, project);
  expect((await directory.load(address))?.monitor.planId).toBe('scale');
  await pool.query("update organizations set plan = 'pro' where organization_id = $1", [
    project.organizationId,
  ]);
  nowMs = 9 * MINUTE_MS;
  expect(directory.peek(address)?.monitor.planId).toBe('scale');
  nowMs = 10 * MINUTE_MS + 1;
  expect(directory.peek(address)).toBeUndefined();
  expect((await directory.load(address))?.monitor.planId).toBe('pro');
});
