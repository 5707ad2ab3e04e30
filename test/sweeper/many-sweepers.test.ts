// Many sweepers on thousands of due monitors, while the database ends their connections: each incident opens once.
import { expect, it } from 'vitest';
import { readNow } from '../../src/store/postgres/transaction.ts';
import type { DeadlineSweepOptions } from '../../src/sweeper/deadlines/sweep-deadlines.ts';
import { openProjectFixture } from '../support/database-fixture.ts';
import { dueAt, seedEndpoint, seedMonitors, seedProject } from '../support/seed.ts';
import { makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

const KILL_ONE = `select pg_terminate_backend(pid, 10000) from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid() order by random() limit 1`;

it('many sweepers whose connections are ended open each of 4,000 incidents once', {
  timeout: 900_000,
}, async () => {
  const { pool, ...own } = await openProjectFixture();
  try {
    await seedEndpoint({ pool, ...own }, 'http://127.0.0.1:9/', true);
    const now = await readNow(pool);
    const project = await seedProject(pool);
    await pool.query('update projects set organization_id = $2 where project_id = $1', [
      project.projectId,
      own.project.organizationId,
    ]);
    for (const of of [own.project, project]) {
      await seedMonitors(pool, of, 2_000, dueAt(now - 10));
    }
    await moveClock(pool);
    let done = 0;
    const kills: Promise<unknown>[] = [];
    // After batches, and not by the clock: a machine too slow for the clock would never finish.
    const onTransitions = () => {
      done += 1;
      if (done % 2 === 0) kills.push(pool.query(KILL_ONE).catch(() => undefined));
    };
    const sweepUntilDone = async (options: Partial<DeadlineSweepOptions>) => {
      const deadlines = makeSweep(pool, options);
      while ((await deadlines.run().catch(() => 'failed')) !== 'idle');
    };
    await Promise.all(Array.from({ length: 8 }, () => sweepUntilDone({ batchSize: 100, onTransitions })));
    expect(done).toBeGreaterThan(10);
    await Promise.all(kills);
    const count = async () => {
      const { rows } = await pool.query(
        `select (select count(*)::integer from incidents) as incidents,
           (select count(distinct monitor_key)::integer from incidents) as monitors,
           (select count(*)::integer from deliveries) as deliveries,
           (select sum(open_incidents)::integer from monitor_live) as counted`,
      );
      return rows[0];
    };
    // A lookback from the beginning finds the rows that a killed sweeper held while the others searched. Citus holds those of
    // a commit that it has not ended until it asks its machines for it, each minute.
    const areOpen = async () => {
      await sweepUntilDone({});
      return (await count()).incidents >= 4_000;
    };
    await waitFor(areOpen, { what: 'every incident is open' });
    expect(await count()).toEqual({
      incidents: 4_000,
      monitors: 4_000,
      deliveries: 4_000,
      counted: 4_000,
    });
  } finally {
    await own.close();
  }
});
