// What writes live rows on a Citus cluster commits at the machine that has them, in one phase (docs/adr/0012).
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { insertLane, writeBeatBatch } from '../../src/store/beats/beats.ts';
import { lockLive } from '../../src/store/monitors/live.ts';
import { isDistributed } from '../../src/store/postgres/engine.ts';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { inTransaction, readNow } from '../../src/store/postgres/transaction.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { dueAt, seedEndpoint, seedMonitors } from '../support/seed.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';

describe.runIf(isDistributed())('one machine commits', () => {
  let fixture: ProjectFixture;
  /** Its connections tell what Citus sends to the machines. */
  let pool: Pool;
  let sent: string[];
  beforeAll(async () => {
    fixture = await openProjectFixture();
    const databaseUrl = `${fixture.databaseUrl}?options=${encodeURIComponent('-c citus.log_remote_commands=on')}`;
    pool = openPool({ databaseUrl, size: 4, applicationName: 'test' });
    pool.on('connect', (client) => client.on('notice', ({ message = '' }) => sent.push(message)));
  });
  beforeEach(() => {
    sent = [];
  });
  afterAll(async () => {
    await pool?.end();
    await fixture?.close();
  });

  const commits = () => sent.filter((message) => /^issuing (COMMIT|PREPARE)/.test(message));

  it('a batch of beats with all that it writes', async () => {
    const monitors = await seedMonitors(fixture.pool, fixture.project, 3);
    // The project's own id is a key in its shard.
    const lane = { laneId: fixture.project.projectId, batch: 1 };
    await insertLane(fixture.pool, lane.laneId);
    await inTransaction(pool, async (tx) => {
      const { nowMs, rows } = await lockLive(tx, monitors);
      const beat = { sequence: 1, kind: 'success', late: false, message: 'done' } as const;
      const observations = rows.map((row) => ({ ...row, ...beat }));
      await writeBeatBatch(tx, { nowMs, live: rows, observations, lane });
    });
    expect((await fixture.pool.query('select from observations')).rowCount).toBe(3);
    expect(commits()).toEqual(['issuing COMMIT']);
  });

  it('a batch of deadlines, with its incidents and alerts', async () => {
    await seedEndpoint(fixture, 'http://127.0.0.1:9/', true);
    await seedMonitors(fixture.pool, fixture.project, 5, dueAt((await readNow(fixture.pool)) - 1_000));
    await moveClock(fixture.pool);
    await drain(makeSweep(pool));
    expect((await fixture.pool.query('select from deliveries')).rowCount).toBe(5);
    expect(commits()).toEqual(['issuing COMMIT']);
  });
});
