// The locks of live rows, which every writer of a monitor takes first.
import { expect, it } from 'vitest';
import { lockLive } from '../../src/store/monitors/live.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { openProjectFixture, servers } from '../support/database-fixture.ts';
import { queryAs } from '../support/distributed-database.ts';
import { seedMonitors } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

it('lockLive reads the clock after it has got the last lock', async () => {
  const { pool, project, databaseUrl, close } = await openProjectFixture();
  const name = new URL(databaseUrl).pathname.slice(1);
  const holder = await pool.connect();
  const waiter = await pool.connect();
  try {
    const monitors = await seedMonitors(pool, project, 3);
    const last = monitors.map(({ monitorKey }) => monitorKey).toSorted()[2];
    await holder.query('begin');
    await holder.query('select from monitor_live where project_id = $1 and monitor_key = $2 for update', [
      project.projectId,
      last,
    ]);
    await waiter.query('begin');
    const locking = lockLive(waiter, monitors);
    const isWaiting = async () => {
      const waiting = "select from pg_stat_activity where datname = $1 and wait_event_type = 'Lock'";
      const found = await Promise.all(servers().map((server) => queryAs(server, waiting, [name])));
      return found.flat().length === 1;
    };
    await waitFor(isWaiting, { what: 'a session that waits for a lock' });
    const waitedUntilMs = await readNow(holder);
    await holder.query('commit');
    const { nowMs, rows: locked } = await locking;
    await waiter.query('commit');
    expect(locked).toHaveLength(3);
    expect(nowMs).toBeGreaterThanOrEqual(waitedUntilMs);
  } finally {
    holder.release(true);
    waiter.release(true);
    await close();
  }
});
