// The role as a whole: from a missed deadline to the receiver, readiness, and an orderly end.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openPool } from '../../src/store/postgres/pool.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { CLOSE_LIMIT_MS, startSweeper } from '../../src/sweeper/start-sweeper.ts';
import { SHUTDOWN_LIMIT_MS } from '../../src/telemetry/run-until-signal.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { openDatabaseFixture, openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { makeConfig } from '../support/make-config.ts';
import { startReceiver } from '../support/receiver.ts';
import { dueAt, seedEndpoint, seedMonitors } from '../support/seed.ts';
import { moveClock } from '../support/sweeper-fixture.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;

beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

describe('the role sweeper', () => {
  it('the sweeper alerts the receiver of missed deadlines, is ready, shows its sweeps in the metrics, and closes its connections', async () => {
    const { pool, project, databaseUrl } = fixture;
    const receiver = await startReceiver();
    await seedEndpoint(fixture, receiver.url, true);
    const telemetry = createTelemetry({ role: 'sweeper', logLevel: 'silent' });
    const sweepers = [
      await startSweeper(makeConfig(databaseUrl), telemetry),
      await startSweeper(makeConfig(databaseUrl), createTelemetry({ role: 'sweeper', logLevel: 'silent' })),
    ];
    // Beats count as accepted all the time, as if an api ran.
    await moveClock(pool, (await readNow(pool)) + 86_400_000);
    try {
      await waitFor(async () => (await telemetry.readiness.readReadiness()).status === 'ok', {
        what: 'the sweeper is ready',
      });
      const deadlineMs = (await readNow(pool)) + 1_000;
      await seedMonitors(pool, project, 20, dueAt(deadlineMs));
      await waitFor(() => receiver.requests.length >= 20, { what: 'all alerts are there' });
      const { rows } = await pool.query('select count(*)::integer as count from incidents');
      expect(rows).toEqual([{ count: 20 }]);
      const bodies = receiver.requests.map(({ body }) => JSON.parse(body).data.monitor.monitorId);
      expect(new Set(bodies).size).toBe(20);
      expect(await telemetry.registry.metrics()).toMatch(
        /beatkeeper_sweep_duration_seconds_count\{sweep="deadlines"\}/,
      );
    } finally {
      await Promise.all(sweepers.map((sweeper) => sweeper.close()));
      await receiver.close();
    }
    // The server closes its side a moment after ours.
    const left = async () => {
      const { rows } = await pool.query(
        `select from pg_stat_activity
         where datname = current_database() and application_name like 'beatkeeper-%'`,
      );
      return rows.length;
    };
    await waitFor(async () => (await left()) === 0, { what: 'no connection is left' });
  });

  it('the sweeper ends while the database hangs, before its process is ended and before its statements time out', async () => {
    const proxy = await TcpProxy.start(fixture.databaseUrl);
    const telemetry = createTelemetry({ role: 'sweeper', logLevel: 'silent' });
    const sweeper = await startSweeper(makeConfig(proxy.url), telemetry);
    // A statement of a job has a minute.
    const statementTimeoutMs = 50_000;
    const other = openPool({ databaseUrl: proxy.url, size: 1, applicationName: 'test', statementTimeoutMs });
    try {
      await waitFor(async () => (await telemetry.readiness.readReadiness()).status === 'ok', {
        what: 'the sweeper is ready',
      });
      await other.query('select 1');
      proxy.blackHole();
      await waitFor(async () => (await telemetry.readiness.readReadiness()).status !== 'ok', {
        what: 'statements hang',
      });
      const timedOut = other.query('select 1').catch(() => 'a statement has timed out');
      const closed = sweeper.close().then(() => 'the sweeper has ended');
      expect(await Promise.race([closed, timedOut])).toBe('the sweeper has ended');
      expect(CLOSE_LIMIT_MS).toBeLessThan(SHUTDOWN_LIMIT_MS);
    } finally {
      await proxy.close();
      await other.end();
    }
  });

  it('the sweeper waits for the schema and is not ready meanwhile', async () => {
    const empty = await openDatabaseFixture({ hasSchema: false });
    const telemetry = createTelemetry({ role: 'sweeper', logLevel: 'silent' });
    const sweeper = await startSweeper(makeConfig(empty.databaseUrl), telemetry);
    try {
      expect(await telemetry.readiness.readReadiness()).toEqual({
        status: 'failing',
        checks: { database: 'ok', schema: 'failing', sweep: 'failing' },
      });
    } finally {
      await sweeper.close();
      await empty.close();
    }
  });

  it('the sweeper refuses to start with allowed destinations that are not valid', async () => {
    const telemetry = createTelemetry({ role: 'sweeper', logLevel: 'silent' });
    const config = makeConfig(fixture.databaseUrl, { allowedPrivateDestinations: '10.0.0.0/99' });
    await expect(startSweeper(config, telemetry)).rejects.toThrow('allowed private destinations');
  });
});
