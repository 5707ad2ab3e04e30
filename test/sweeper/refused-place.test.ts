// The role `sweeper` where the database of a jurisdiction is not the installation's own: it sweeps nothing there, says why, and
// sweeps the default database all the same.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { startSweeper } from '../../src/sweeper/start-sweeper.ts';
import type { Running } from '../../src/telemetry/run-until-signal.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { makeConfig } from '../support/make-config.ts';
import { dueAt, seedMonitor, seedProject } from '../support/seed.ts';
import { moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

let main: DatabaseFixture;
let eu: DatabaseFixture;
let sweeper: Running;
const telemetry = createTelemetry({ role: 'sweeper', logLevel: 'silent' });

/** A monitor that is due, in a database whose clock runs as if an api did. */
async function makeDue(pool: Pool): Promise<void> {
  const nowMs = await readNow(pool);
  await moveClock(pool, nowMs + 86_400_000);
  await seedMonitor(pool, await seedProject(pool), dueAt(nowMs - 1_000));
}
const countIncidents = async ({ pool }: DatabaseFixture) =>
  (await pool.query('select from incidents')).rowCount;

beforeAll(async () => {
  [main, eu] = await Promise.all([openDatabaseFixture(), openDatabaseFixture()]);
  await makeDue(eu.pool);
  await eu.pool.query('insert into directory_copy (installation_id, jurisdiction) values ($1, $2)', [
    randomUUID(),
    'eu',
  ]);
  const places = [{ jurisdiction: 'eu' as const, databaseUrl: eu.databaseUrl }];
  sweeper = await startSweeper(makeConfig(main.databaseUrl, { places }), telemetry);
});
afterAll(async () => {
  await sweeper?.close();
  await Promise.all([main?.close(), eu?.close()]);
});

it("another installation's database is not swept until it is the installation's own", async () => {
  const { readiness } = telemetry;
  await waitFor(async () => (await readiness.readReadiness()).status === 'degraded', {
    what: 'the sweeper is ready, and says that a place is refused',
  });
  expect((await readiness.readReadiness()).checks).toMatchObject({
    database: 'ok',
    sweep: 'ok',
    database_eu: 'failing',
    sweep_eu: 'failing',
  });
  await makeDue(main.pool);
  await waitFor(async () => (await countIncidents(main)) === 1, { what: 'the default database is swept' });
  expect(await countIncidents(eu)).toBe(0);
  const written = await eu.pool.query('select from sweeper_leases');
  expect(written.rowCount).toBe(0);
  // What it had of the other installation goes with the copies of the first one.
  const { rows } = await main.pool.query('select installation_id as id from installation');
  await eu.pool.query('update directory_copy set installation_id = $1', [rows[0].id]);
  await waitFor(async () => (await countIncidents(eu)) === 1, { what: 'the place is swept' });
});
