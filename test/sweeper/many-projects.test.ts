// Deadlines of many projects at one instant. On a distributed server (npm run test:distributed) they are in several shards.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { dueAt, type SeedMonitor, seedMonitors, seedProject } from '../support/seed.ts';
import { incidentsOf } from '../support/stored-rows.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';

let fixture: DatabaseFixture;

beforeAll(async () => {
  fixture = await openDatabaseFixture();
});
afterAll(() => fixture?.close());

it('sweepers that share the deadlines of many projects open one incident for each, also in batches of a few', async () => {
  const dueMs = (await readNow(fixture.pool)) - 1_000;
  const monitors: SeedMonitor[] = [];
  for (let index = 0; index < 12; index += 1) {
    const project = await seedProject(fixture.pool);
    monitors.push(...(await seedMonitors(fixture.pool, project, 5, dueAt(dueMs))));
  }
  await moveClock(fixture.pool);
  await Promise.all([drain(makeSweep(fixture.pool, { batchSize: 7 })), drain(makeSweep(fixture.pool))]);
  await drain(makeSweep(fixture.pool));
  for (const monitor of monitors) {
    expect(await incidentsOf(fixture.pool, monitor)).toMatchObject([
      { kind: 'missed_deadline', state: 'open' },
    ]);
  }
});
