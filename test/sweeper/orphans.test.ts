// What alerts say of a monitor that an object of a cluster declares, and whose object is gone (docs/contract/incidents.md).
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { openPingFixture, type PingFixture } from '../ingest/ping-fixture.ts';
import { dueAt, type SeedColumns, seedEndpoint } from '../support/seed.ts';
import { incidentsOf, timelineOf } from '../support/stored-rows.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';

let fixture: PingFixture;
beforeAll(async () => {
  fixture = await openPingFixture();
  await seedEndpoint(fixture, 'http://127.0.0.1:9/', true);
});
afterAll(() => fixture?.close());

const GONE_AT = '2026-01-01T09:00:00.000Z';
const ORIGIN = { kind: 'Monitor', namespace: 'payments' };
const declaredBy = (name: string, orphanedAt?: string): SeedColumns['configuration'] => ({
  origin_kind: ORIGIN.kind,
  origin_namespace: ORIGIN.namespace,
  origin_name: name,
  origin_uid: '6f1c2f0e-6f0a-4c55-9a52-0c9e3c9b7d11',
  orphaned_at: orphanedAt,
});
const sentence = (name: string) =>
  `The Monitor payments/${name} that declares it is gone from the cluster since ${GONE_AT}: apply it again, or archive the monitor.`;

async function miss(configuration: SeedColumns['configuration']) {
  const deadlineMs = (await readNow(fixture.pool)) - 1000;
  const monitor = await fixture.makeMonitor({ configuration, live: dueAt(deadlineMs).live });
  await moveClock(fixture.pool);
  await drain(makeSweep(fixture.pool));
  return monitor;
}

async function alertsOf(monitor: { monitorKey: string }) {
  const { rows } = await fixture.pool.query<{ body: string }>(
    'select body from deliveries where monitor_key = $1 order by sequence',
    [monitor.monitorKey],
  );
  return rows.map(({ body }) => JSON.parse(body).data);
}

it('an alert of a monitor whose object is gone says so, and its timeline too', async () => {
  const monitor = await miss(declaredBy('backup', GONE_AT));
  const [alert] = await alertsOf(monitor);
  expect(alert.monitor.origin).toEqual({ ...ORIGIN, name: 'backup', orphanedAt: GONE_AT });
  expect(alert.incident.summary).toMatch(/^No beat .*\. The Monitor/);
  expect(alert.incident.summary).toContain(sentence('backup'));
  const [incident] = await incidentsOf(fixture.pool, monitor);
  expect(incident.summary).not.toContain('is gone');
  expect(await timelineOf(fixture.pool, incident.incident_id)).toMatchObject([
    { type: 'opened', detail: { origin: { ...ORIGIN, name: 'backup', orphanedAt: GONE_AT } } },
  ]);
});

it('an alert of a monitor whose object is there names the object and says nothing more', async () => {
  const monitor = await miss(declaredBy('export'));
  const [alert] = await alertsOf(monitor);
  expect(alert.monitor.origin).toEqual({ ...ORIGIN, name: 'export' });
  expect(alert.incident.summary).not.toContain('gone');
  const [incident] = await incidentsOf(fixture.pool, monitor);
  expect(await timelineOf(fixture.pool, incident.incident_id)).toMatchObject([
    { type: 'opened', detail: null },
  ]);
});

it('an alert of a monitor that no object declares has no origin', async () => {
  const [alert] = await alertsOf(await miss({}));
  expect(alert.monitor).not.toHaveProperty('origin');
});

it('alerts of beats say at once that the object is gone, and at once that it is there again', async () => {
  const monitor = await fixture.makeMonitor({ configuration: declaredBy('import') });
  const beat = async (kind = '') =>
    expect((await fetch(`${fixture.url}/ping/${monitor.address}${kind}`)).status).toBe(200);
  const mark = (orphanedAt: string | null) =>
    fixture.pool.query('update monitors set orphaned_at = $2 where monitor_key = $1', [
      monitor.monitorKey,
      orphanedAt,
    ]);
  await beat();
  await mark(GONE_AT);
  await beat('/fail');
  await mark(null);
  await beat();
  const [opened, recovered] = await alertsOf(monitor);
  expect(opened.incident.summary).toContain(sentence('import'));
  expect(recovered.incident.summary).toMatch(/^Recovered: /);
  expect(recovered.incident.summary).not.toContain('gone');
});
