// The role `sweeper` with two databases, the default one and that of the jurisdiction eu: each is swept by itself, whatever
// becomes of the other one.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrate } from '../../src/store/postgres/migrate.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { startSweeper } from '../../src/sweeper/start-sweeper.ts';
import type { Running } from '../../src/telemetry/run-until-signal.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { ENCRYPTION_KEY, makeConfig } from '../support/make-config.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { dueAt, type SeedProject, seedEndpoint, seedMonitors, seedProject } from '../support/seed.ts';
import { moveClock } from '../support/sweeper-fixture.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

const secrets = new SecretBox([ENCRYPTION_KEY]);
let main: DatabaseFixture;
let eu: DatabaseFixture;
let proxies: { main: TcpProxy; eu: TcpProxy };
let project: SeedProject;
let receiver: Receiver;
let sweeper: Running;
const telemetry = createTelemetry({ role: 'sweeper', logLevel: 'silent' });

/** Beats count as accepted all the time, as if an api ran. */
const runClock = async (pool: Pool) => moveClock(pool, (await readNow(pool)) + 86_400_000);

beforeAll(async () => {
  [main, eu] = await Promise.all([openDatabaseFixture(), openDatabaseFixture({ hasSchema: false })]);
  proxies = { main: await TcpProxy.start(main.databaseUrl), eu: await TcpProxy.start(eu.databaseUrl) };
  receiver = await startReceiver();
  project = await seedProject(main.pool);
  await seedEndpoint({ pool: main.pool, project, secrets }, receiver.url, true);
  await runClock(main.pool);
  const places = [{ jurisdiction: 'eu' as const, databaseUrl: proxies.eu.url }];
  sweeper = await startSweeper(makeConfig(proxies.main.url, { places }), telemetry);
});
afterAll(async () => {
  await sweeper?.close();
  await receiver?.close();
  await Promise.all([proxies?.main.close(), proxies?.eu.close()]);
  await Promise.all([main?.close(), eu?.close()]);
});

/** Monitors that are due in a moment; waits for their alerts. */
async function expectAlerts({ pool }: DatabaseFixture, count: number): Promise<void> {
  const monitors = await seedMonitors(pool, project, count, dueAt((await readNow(pool)) + 500));
  const told = () => {
    const ids = receiver.requests.map(({ body }) => JSON.parse(body).data.monitor.monitorId);
    return monitors.every(({ monitorId }) => ids.includes(monitorId));
  };
  await waitFor(told, { what: 'all alerts are there' });
}

const readiness = () => telemetry.readiness.readReadiness();

describe('the role sweeper with a database for a jurisdiction', () => {
  it('sweeps the default database while the other one has no schema, and that one as soon as it is migrated', async () => {
    await expectAlerts(main, 2);
    await waitFor(async () => (await readiness()).status === 'degraded', { what: 'eu has no schema' });
    expect((await readiness()).checks).toMatchObject({ schema: 'ok', schema_eu: 'failing', sweep: 'ok' });
    await migrate({ databaseUrl: eu.databaseUrl });
    await runClock(eu.pool);
    await waitFor(async () => (await readiness()).status === 'ok', { what: 'eu is swept' });
    const hasProject = async () => (await eu.pool.query('select from projects')).rowCount === 1;
    await waitFor(hasProject, { what: 'the directory is copied' });
    await expectAlerts(eu, 2);
  });

  it('opens incidents and sends alerts of one database while the other one is away, whichever it is', async () => {
    for (const [away, other] of [
      [proxies.main, eu],
      [proxies.eu, main],
    ] as const) {
      away.blackHole();
      await expectAlerts(other, 3);
      away.forward();
      away.reset();
    }
    await waitFor(async () => (await readiness()).status === 'ok', { what: 'both are swept again' });
    await Promise.all([expectAlerts(main, 1), expectAlerts(eu, 1)]);
  });

  it('keeps incidents and deliveries where their monitor is', async () => {
    const countOf = async ({ pool }: DatabaseFixture) => {
      const { rows } = await pool.query(
        `select (select count(*)::integer from monitors) as monitors, count(distinct monitor_key)::integer as incidents,
           (select count(distinct monitor_key)::integer from deliveries) as deliveries from incidents`,
      );
      return rows[0];
    };
    expect(await countOf(main)).toEqual({ monitors: 6, incidents: 6, deliveries: 6 });
    expect(await countOf(eu)).toEqual({ monitors: 6, incidents: 6, deliveries: 6 });
  });

  it('shows each of its numbers for each database', async () => {
    const metrics = await telemetry.registry.metrics();
    for (const database of ['default', 'eu']) {
      const deadlines = `beatkeeper_sweep_duration_seconds_count{sweep="deadlines",database="${database}"}`;
      expect(metrics).toContain(deadlines);
      expect(metrics).toContain(`beatkeeper_monitors_woken_total{database="${database}"}`);
    }
    expect(metrics).toContain('{sweep="directory",database="eu"}');
    expect(metrics).not.toContain('{sweep="directory",database="default"}');
  });
});
