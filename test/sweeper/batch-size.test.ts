// How many due monitors one transaction wakes: as many as a moment allows, on a machine that may be slow. A trigger slows
// the database by a known time for each row, so that the machine's own pace does not matter.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openPool } from '../../src/store/postgres/pool.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { dueAt, seedMonitors } from '../support/seed.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

const ROW_MS = 5;
const MONITORS = 600;

let fixture: ProjectFixture;

beforeEach(async () => {
  fixture = await openProjectFixture();
  const { pool, project } = fixture;
  const deadlineMs = (await readNow(pool)) - 1_000;
  await seedMonitors(pool, project, MONITORS, dueAt(deadlineMs));
  await moveClock(pool);
  await pool.query(
    `create function slow_row() returns trigger language plpgsql as
       $$ begin perform pg_sleep(${ROW_MS / 1_000}); return new; end $$`,
  );
  await pool.query(
    'create trigger slow_row before update on monitor_live for each row execute function slow_row()',
  );
});
afterEach(() => fixture?.close());

/** How many monitors each transaction wrote, the most first. */
async function batches(): Promise<number[]> {
  const { rows } = await fixture.pool.query<{ size: number }>(
    `select count(*)::integer as size from monitor_live where open_incidents = 1
     group by changed_xid order by count(*) desc`,
  );
  return rows.map(({ size }) => size);
}

it('no batch of due monitors but the first locks its rows for longer than half a second', async () => {
  await drain(makeSweep(fixture.pool));
  const [first = 0, ...others] = await batches();
  expect(first).toBeLessThanOrEqual(250);
  expect(Math.max(...others)).toBeLessThanOrEqual(500 / ROW_MS);
  expect(first + others.reduce((sum, size) => sum + size, 0)).toBe(MONITORS);
});

it('a batch that runs into the statement timeout is tried again as a smaller one', async () => {
  const statementTimeoutMs = 900; // the first 250 rows take 1.25 s
  const pool = openPool({
    databaseUrl: fixture.databaseUrl,
    size: 4,
    applicationName: 'test',
    statementTimeoutMs,
  });
  try {
    const sweep = makeSweep(pool);
    await expect(sweep.run()).rejects.toThrow('statement timeout');
    const isDone = async () => {
      await sweep.run().catch(() => undefined);
      return (await batches()).reduce((sum, size) => sum + size, 0) === MONITORS;
    };
    // On an even slower machine the lookback of the next minute finds the rest.
    await waitFor(isDone, { what: 'all incidents are open', timeoutMs: 180_000 });
  } finally {
    await pool.end();
  }
});
