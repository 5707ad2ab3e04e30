// The role as a whole: from a missed deadline to the receiver, readiness, and an orderly end.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startSweeper } from '../../src/sweeper/start-sweeper.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { openTestPool } from '../support/database.ts';
import { startReceiver } from '../support/receiver.ts';
import { seedMonitors } from '../support/seed.ts';
import {
  addEndpoint,
  KEY,
  moveClock,
  openSweeperFixture,
  readNowMs,
  type SweeperFixture,
} from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: SweeperFixture;

beforeAll(async () => {
  fixture = await openSweeperFixture();
});
afterAll(() => fixture?.close());

function configOf(databaseUrl: string) {
  return {
    databaseUrl,
    databasePool: 4,
    encryptionKeys: [KEY],
    allowedPrivateDestinations: '127.0.0.0/8',
    publicUrl: 'http://127.0.0.1:8080',
    minimumIntervalSeconds: 60,
  };
}

describe('the role sweeper', () => {
  it('tells the receiver of a missed deadline, is ready meanwhile, shows it in its metrics, and ends', async () => {
    const { pool, project, url } = fixture;
    const receiver = await startReceiver((_request, _message, response) => response.writeHead(204).end());
    await addEndpoint(fixture, `http://127.0.0.1:${receiver.port}/`, true);
    const telemetry = createTelemetry({ role: 'sweeper', logLevel: 'silent' });
    const sweepers = [
      await startSweeper(configOf(url), telemetry),
      await startSweeper(configOf(url), createTelemetry({ role: 'sweeper', logLevel: 'silent' })),
    ];
    // As if an api ran all the time.
    await moveClock(pool, (await readNowMs(pool)) + 86_400_000);
    try {
      await waitFor(async () => Object.keys(await telemetry.readiness.findFaults()).length === 0, {
        what: 'the sweeper is ready',
      });
      const deadlineMs = (await readNowMs(pool)) + 1_000;
      await seedMonitors(pool, project, 20, {
        live: { anchor_ms: deadlineMs - 120_000, deadline_ms: deadlineMs, wake_ms: deadlineMs },
      });
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
    // The server ends its side a moment after ours.
    const left = async () => {
      const { rows } = await pool.query(
        `select from pg_stat_activity
         where datname = current_database() and application_name like 'beatkeeper-%'`,
      );
      return rows.length;
    };
    await waitFor(async () => (await left()) === 0, { what: 'no connection is left' });
  });

  it('waits for the schema, and is not ready meanwhile', async () => {
    const url = new URL(fixture.url);
    const admin = openTestPool(url.href, 1);
    const name = `${url.pathname.slice(1)}_empty`;
    await admin.query(`create database ${name}`);
    url.pathname = `/${name}`;
    const telemetry = createTelemetry({ role: 'sweeper', logLevel: 'silent' });
    const sweeper = await startSweeper(configOf(url.href), telemetry);
    try {
      const faults = await waitFor(async () => {
        const found = await telemetry.readiness.findFaults();
        return found.schema?.includes('run migrate') && found;
      });
      expect(faults).toMatchObject({ sweep: expect.any(String) });
    } finally {
      await sweeper.close();
      await admin.query(`drop database ${name} with (force)`);
      await admin.end();
    }
  });

  it('refuses destinations that are no list of blocks and hosts', async () => {
    const telemetry = createTelemetry({ role: 'sweeper', logLevel: 'silent' });
    const config = { ...configOf(fixture.url), allowedPrivateDestinations: '10.0.0.0/99' };
    await expect(startSweeper(config, telemetry)).rejects.toThrow('allowed private destinations');
  });
});
