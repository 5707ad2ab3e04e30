// What the beat path remembers of monitors, and for how long.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { seedMonitors, seedProject } from '../support/seed.ts';

const MINUTE_MS = 60_000;

let database: TestDatabase;
let pool: Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = openPool({
    databaseUrl: database.url,
    size: 1,
    applicationName: 'test',
    statementTimeoutMs: 60_000,
  });
});
afterAll(async () => {
  await pool?.end();
  await database?.drop();
});

it('knows a monitor of the shortest interval at its next beats, and its new plan after ten minutes', async () => {
  let nowMs = 0;
  const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: MINUTE_MS, now: () => nowMs });
  const project = await seedProject(pool, 'scale');
  const [monitor] = await seedMonitors(pool, project, 1);
  const address = monitor?.address ?? '';
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
