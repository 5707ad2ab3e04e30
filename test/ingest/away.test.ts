// The beat path while the database is away, seen from inside one api: what it notices, what it reports to the service
// clock, and how soon it recovers. faults.test.ts tests the same from outside.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startServiceClock } from '../../src/api/service-clock.ts';
import type { BeatItem } from '../../src/ingest/apply-items.ts';
import { Batcher } from '../../src/ingest/batcher.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { type DirectoryEntry, MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { openPool } from '../../src/store/postgres/pool.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedMonitor, seedMonitor } from '../support/seed.ts';
import { incidentsOf } from '../support/stored-rows.ts';
import { makeSweep } from '../support/sweeper-fixture.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;
let proxy: TcpProxy;
let monitor: SeedMonitor;
let endings: (() => Promise<unknown>)[];

beforeEach(async () => {
  endings = [];
  fixture = await openProjectFixture();
  proxy = await TcpProxy.start(fixture.databaseUrl);
  monitor = await seedMonitor(fixture.pool, fixture.project);
});
afterEach(async () => {
  await proxy?.close();
  for (const end of endings) await end();
  await fixture?.close();
});

function openDirectory(statementTimeoutMs = 60_000): MonitorDirectory {
  const pool = openPool({
    databaseUrl: proxy.url,
    size: 1,
    applicationName: 'addresses',
    statementTimeoutMs,
  });
  endings.push(() => pool.end());
  return new MonitorDirectory({ db: pool, minimumIntervalMs: 60_000, patienceMs: 60_000 });
}

function openBatcher(directory: MonitorDirectory, lanes: number) {
  const failures: unknown[] = [];
  const batcher = new Batcher({
    directory,
    lanes: Array.from({ length: lanes }, () => new Lane(proxy.url)),
    patienceMs: 60_000,
    onError: (error) => failures.push(error),
  });
  endings.push(() => batcher.close());
  return { batcher, failures };
}

async function findEntry(directory: MonitorDirectory): Promise<DirectoryEntry> {
  const entry = await directory.load(monitor.address);
  if (!entry) throw new Error('the address was not found');
  return entry;
}

const beatOf = (entry: DirectoryEntry): BeatItem => ({ entry, beat: { kind: 'success' } });

/** Slow answers bring the second lane into use, so that both connect. A monitor's beats use one lane at a time. */
async function useBothLanes(batcher: Batcher, entry: DirectoryEntry): Promise<void> {
  const another = await seedMonitor(fixture.pool, fixture.project);
  const second = await openDirectory().load(another.address);
  if (!second) throw new Error('the address was not found');
  proxy.delay(20);
  await waitFor(
    async () => {
      const first = batcher.submit(beatOf(entry));
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      await Promise.all([first, batcher.submit(beatOf(second))]);
      const { rows } = await fixture.pool.query(
        "select count(*)::int as lanes from pg_stat_activity where application_name = 'beatkeeper-ingest' and datname = current_database()",
      );
      return rows[0].lanes === 2;
    },
    { what: 'both lanes' },
  );
}

it('the batcher reconnects an idle lane after another lane has lost the database', async () => {
  const directory = openDirectory();
  const entry = await findEntry(directory);
  const { batcher, failures } = openBatcher(directory, 2);
  await useBothLanes(batcher, entry);
  proxy.delay(0);

  proxy.blackHole();
  const hung = batcher.submit(beatOf(entry));
  await waitFor(() => failures.length > 0, { what: 'the failure of the lane that hangs' });
  proxy.forward();
  expect(await hung).toHaveProperty('answer');
  const known = failures.length;
  for (let beat = 0; beat < 20; beat += 1) {
    const outcomes = await Promise.all([batcher.submit(beatOf(entry)), batcher.submit(beatOf(entry))]);
    for (const outcome of outcomes) expect(outcome).toHaveProperty('answer');
  }
  expect(failures).toHaveLength(known);
});

it('the beats of a monitor keep their order while two lanes write', async () => {
  const directory = openDirectory();
  const other = await seedMonitor(fixture.pool, fixture.project);
  const [entry, neighbour] = [await findEntry(directory), await directory.load(other.address)];
  if (!neighbour) throw new Error('the address was not found');
  const { batcher } = openBatcher(directory, 2);
  await useBothLanes(batcher, neighbour);
  // A batch writes its plain beats first, then the failure: a success in the other lane could overtake it.
  const first = [batcher.submit(beatOf(neighbour)), batcher.submit({ entry, beat: { kind: 'fail' } })];
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  const success = batcher.submit(beatOf(entry));
  await Promise.all(first);
  expect(await success).toMatchObject({ answer: { sequence: 2 } });
  expect(await incidentsOf(fixture.pool, monitor)).toMatchObject([{ state: 'recovered' }]);
});

it('the batcher reports for how long it is stuck while beats wait and none becomes durable', async () => {
  const directory = openDirectory();
  const entry = await findEntry(directory);
  const { batcher } = openBatcher(directory, 1);
  expect(await batcher.submit(beatOf(entry))).toHaveProperty('answer');
  expect(batcher.stuckMs).toBe(0);
  await proxy.refuse();
  // No beat waits: nothing shows a fault.
  expect(batcher.stuckMs).toBe(0);
  const waiting = batcher.submit(beatOf(entry));
  await waitFor(() => batcher.stuckMs > 0, { what: 'a waiting beat' });
  await proxy.accept();
  expect(await waiting).toHaveProperty('answer');
  expect(batcher.stuckMs).toBe(0);
});

it('while the database is away an unknown address waits, and a cached one is found at once', async () => {
  const directory = openDirectory();
  await proxy.refuse();
  const unknown = directory.load(monitor.address);
  await waitFor(() => directory.stuckMs > 0, { what: 'a waiting look-up' });
  await proxy.accept();
  expect(await unknown).toMatchObject({ address: monitor.address });
  expect(directory.stuckMs).toBe(0);
  await proxy.refuse();
  expect(await directory.load(monitor.address)).toMatchObject({ address: monitor.address });
});

it('the look-up of an unknown address is rejected when its patience ends before the database is back', async () => {
  const pool = openPool({ databaseUrl: proxy.url, size: 1, applicationName: 'addresses' });
  endings.push(() => pool.end());
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: 60_000, patienceMs: 200, onError });
  await proxy.refuse();
  await expect(directory.load(monitor.address)).rejects.toThrow();
  expect(errors).toContainEqual(expect.objectContaining({ message: expect.any(String) }));
});

it('the wait for the address counts against the patience of the beat', async () => {
  const directory = openDirectory();
  const entry = await findEntry(directory);
  const { batcher } = openBatcher(directory, 1);
  await proxy.refuse();
  expect(await batcher.submit(beatOf(entry), 60_000)).toMatchObject({
    problem: { code: 'temporarily_unavailable' },
  });
});

it('the service clock stops while beats wait, even if the database answers it, and records an outage', async () => {
  let stuckMs = 2_000;
  let asked = 0;
  const clock = startServiceClock(fixture.pool, createLog({ role: 'test', level: 'silent' }), () => {
    asked += 1;
    return stuckMs;
  });
  endings.push(() => clock.stop());
  const readClock = async () =>
    (await fixture.pool.query('select last_ms from service_clock')).rows[0]?.last_ms;
  const readOutage = async () =>
    (await fixture.pool.query('select from_ms, to_ms from service_outages')).rows[0];
  await waitFor(() => asked > 2, { what: 'some readings of the clock' });
  expect(await readClock()).toBeUndefined();
  expect(await readOutage()).toBeUndefined();
  stuckMs = 5_000;
  const outage = await waitFor(readOutage, { what: 'the outage that has begun' });
  expect(outage.to_ms - outage.from_ms).toBeGreaterThanOrEqual(5_000);
  stuckMs = 0;
  await waitFor(async () => (await readClock()) > outage.to_ms, { what: 'the first beat' });
});

it('a process that was stopped, and could not read its answers, records no outage', async () => {
  const readings = [0, 60_000, 0, 60_000, 500, 60_000];
  const clock = startServiceClock(
    fixture.pool,
    createLog({ role: 'test', level: 'silent' }),
    () => readings.shift() ?? 0,
  );
  endings.push(() => clock.stop());
  await waitFor(() => readings.length === 0, { what: 'all readings of the clock' });
  await clock.stop();
  // A shorter outage comes from a busy machine.
  const { rowCount } = await fixture.pool.query('select from service_outages where to_ms - from_ms >= 60000');
  expect(rowCount).toBe(0);
});

it('an open incident names the outage in its timeline even if the process ends before the outage does', async () => {
  await fixture.pool.query(
    `insert into incidents (project_id, incident_id, monitor_key, monitor_id, jurisdiction, kind, state, severity,
       opened_at, summary)
     select project_id, 'inc_1', monitor_key, 'm', 'unrestricted', 'missed_deadline', 'open', 'critical', now(), 'x'
     from monitor_live`,
  );
  const clock = startServiceClock(fixture.pool, createLog({ role: 'test', level: 'silent' }), () => 5_000);
  endings.push(() => clock.stop());
  const hasBegun = async () => (await fixture.pool.query('select from service_outages')).rowCount === 1;
  await waitFor(hasBegun, { what: 'the outage that has begun' });
  await clock.stop();
  const { rows } = await fixture.pool.query('select type from timeline_entries');
  expect(rows).toEqual([{ type: 'service_outage' }]);
});

it('no incident opens for beats that a lock keeps out, whatever an api without beats reports', async () => {
  const entry = await findEntry(openDirectory());
  const { batcher } = openBatcher(openDirectory(), 1);
  const log = createLog({ role: 'test', level: 'silent' });
  for (const findStuckMs of [() => 0, () => batcher.stuckMs]) {
    const clock = startServiceClock(fixture.pool, log, findStuckMs);
    endings.push(() => clock.stop());
  }
  const admin = await fixture.pool.connect();
  await admin.query('begin');
  await admin.query('lock table observations in access exclusive mode');
  const beat = batcher.submit(beatOf(entry));
  const findOutage = async () =>
    (await fixture.pool.query('select from_ms, to_ms from service_outages')).rows[0];
  const { from_ms: fromMs } = await waitFor(findOutage, { what: 'the outage that has begun' });
  await fixture.pool.query('update monitor_live set anchor_ms = $1, deadline_ms = $2, wake_ms = $2', [
    fromMs - 119_999,
    fromMs + 1,
  ]);
  const sweep = makeSweep(fixture.pool);
  const findMoved = async () => {
    await sweep.run();
    const { rowCount } = await fixture.pool.query('select from monitor_live where unmoved_ms is not null');
    return rowCount === 1;
  };
  await waitFor(findMoved, { what: 'the moved deadline' });
  await admin.query('rollback');
  admin.release();
  expect(await beat).toHaveProperty('answer');
  expect((await fixture.pool.query('select from incidents')).rowCount).toBe(0);
});
