// The end of an api that holds refused beats: it writes their excuses, then says goodbye.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startApi } from '../../src/api/start-api.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { makeConfig } from '../support/make-config.ts';
import { dueAt, seedMonitor } from '../support/seed.ts';
import { liveOf } from '../support/stored-rows.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;
let proxy: TcpProxy;

beforeEach(async () => {
  fixture = await openProjectFixture();
  proxy = await TcpProxy.start(fixture.databaseUrl);
});
afterEach(async () => {
  await proxy?.close();
  await fixture?.close();
});

it('an api that ends when its database is back writes the excuse of a refused beat, and no outage is left', async () => {
  const api = await startApi(makeConfig(proxy.url), createTelemetry({ role: 'api', logLevel: 'silent' }));
  const readClock = async () => (await fixture.pool.query('select * from service_clock')).rows;
  await waitFor(async () => (await readClock()).length === 1, { what: 'the clock runs' });
  const monitor = await seedMonitor(fixture.pool, fixture.project, dueAt(Date.now() + 90_000));
  await proxy.refuse();
  const answer = await fetch(`http://127.0.0.1:${api.port}/ping/${monitor.address}`);
  expect(answer.status).toBe(503);
  const [away] = await readClock();
  await proxy.accept();
  await api.close();
  const { excused_ms: excusedMs, excused_beats: excusedBeats } = await liveOf(fixture.pool, monitor);
  expect(excusedBeats).toBe(1);
  const [ended] = await readClock();
  expect(ended).toMatchObject({ api_id: away.api_id, ended: true });
  // Until the excuse was written the clock stood before the beat.
  expect(away.decided_ms).toBeLessThanOrEqual(excusedMs);
  expect(ended.decided_ms).toBeGreaterThan(excusedMs);
});
