// The excuses of refused beats on their way into the live rows: to whom they belong, exactly once, past locked rows.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { newUuid } from '../../src/domain/id.ts';
import { ExcuseWriter, type ExcuseWriterOptions } from '../../src/ingest/excuse-writer.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { OpenBeats } from '../../src/ingest/open-beats.ts';
import { isDistributed } from '../../src/store/postgres/engine.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { listen } from '../support/listen.ts';
import { dueAt, type SeedMonitor, seedMonitor, seedMonitors } from '../support/seed.ts';
import { standStill } from '../support/stand-still.ts';
import { incidentsOf, liveOf } from '../support/stored-rows.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;
let openBeats: OpenBeats;
let writer: ExcuseWriter | undefined;
let proxy: TcpProxy | undefined;

beforeEach(async () => {
  fixture = await openProjectFixture();
  openBeats = new OpenBeats();
});
afterEach(async () => {
  await proxy?.close();
  await writer?.close();
  [proxy, writer] = [undefined, undefined];
  await fixture?.close();
});

function startWriter(options: Partial<ExcuseWriterOptions> = {}): ExcuseWriter {
  const lane = new Lane(fixture.databaseUrl);
  writer = new ExcuseWriter({ openBeats, lane, closeMs: 0, ...options });
  return writer;
}

const refuse = (...monitors: Pick<SeedMonitor, 'address'>[]) => {
  for (const { address } of monitors) openBeats.refuse(openBeats.begin(address));
};

const readNow = async (): Promise<number> =>
  (await fixture.pool.query('select (extract(epoch from clock_timestamp()) * 1000)::bigint as now')).rows[0]
    .now;

/** Monitors whose deadline comes in 90 s. */
const makeRunning = async (count: number) =>
  await seedMonitors(fixture.pool, fixture.project, count, dueAt((await readNow()) + 90_000));

async function makeOne(): Promise<SeedMonitor> {
  const [monitor] = await makeRunning(1);
  if (!monitor) throw new Error('no monitor was made');
  return monitor;
}

const allWritten = () =>
  waitFor(() => openBeats.oldestAt() === undefined, { what: 'all excuses are written' });

const NONE = { excused_from_ms: null, excused_ms: null, excused_beats: null };

it('refused beats of many monitors are on their live rows with their arrivals and counts', async () => {
  const monitors = await makeRunning(2_500);
  const beforeMs = await readNow();
  refuse(...monitors, ...monitors);
  startWriter();
  await allWritten();
  const { rows } = await fixture.pool.query(
    `select count(*)::int as monitors, min(excused_from_ms) as first, max(excused_ms) as newest from monitor_live
     where excused_beats = 2 and excused_from_ms <= excused_ms`,
  );
  expect(rows).toMatchObject([{ monitors: 2_500 }]);
  expect(rows[0].first).toBeGreaterThanOrEqual(beforeMs);
  expect(rows[0].newest).toBeLessThanOrEqual(await readNow());
});

it('beats that are refused later add to the excuse, and after an accepted beat a new one begins', async () => {
  const monitor = await makeOne();
  startWriter();
  refuse(monitor);
  await allWritten();
  const first = await liveOf(fixture.pool, monitor);
  refuse(monitor);
  refuse(monitor);
  await allWritten();
  const second = await liveOf(fixture.pool, monitor);
  expect(second).toMatchObject({ excused_from_ms: first.excused_from_ms, excused_beats: 3 });
  expect(second.excused_ms).toBeGreaterThanOrEqual(first.excused_ms);
  // The status feed and the wake index see no change.
  expect(second).toMatchObject({ changed_xid: '3', wake_ms: first.wake_ms, anchor_ms: first.anchor_ms });

  const anchorMs = await readNow();
  await fixture.pool.query('update monitor_live set anchor_ms = $1', [anchorMs]);
  await waitFor(async () => (await readNow()) > anchorMs, { what: 'the next millisecond' });
  refuse(monitor);
  await allWritten();
  const third = await liveOf(fixture.pool, monitor);
  expect(third).toMatchObject({ excused_beats: 1, excused_from_ms: third.excused_ms });
  expect(third.excused_ms).toBeGreaterThan(anchorMs);
});

it('a refusal older than the beat that was accepted after it changes nothing', async () => {
  const monitor = await makeOne();
  refuse(monitor);
  const anchorMs = (await readNow()) + 60_000;
  await fixture.pool.query('update monitor_live set anchor_ms = $1', [anchorMs]);
  const before = await liveOf(fixture.pool, monitor);
  startWriter();
  await allWritten();
  expect(await liveOf(fixture.pool, monitor)).toEqual(before);
});

it('an excuse from before the clock of the database was set back does not hide a newer one', async () => {
  const monitor = await makeOne();
  const aheadMs = (await readNow()) + 3_600_000;
  await fixture.pool.query(
    'update monitor_live set excused_from_ms = $1, excused_ms = $1, excused_beats = 5, anchor_ms = $2',
    [aheadMs, aheadMs - 7_200_000],
  );
  refuse(monitor);
  startWriter();
  await allWritten();
  const excused = await liveOf(fixture.pool, monitor);
  expect(excused).toMatchObject({ excused_beats: 1, excused_from_ms: excused.excused_ms });
  expect(excused.excused_ms).toBeLessThan(aheadMs);
});

it('an excuse changes no monitor without a running deadline, an open run or rules, and no unknown address waits for one', async () => {
  const monitors = [
    await seedMonitor(fixture.pool, fixture.project),
    await seedMonitor(fixture.pool, fixture.project, { configuration: { lifecycle: 'paused' } }),
    await seedMonitor(fixture.pool, fixture.project, { configuration: { lifecycle: 'archived' } }),
    // Down: the deadline was missed.
    await seedMonitor(fixture.pool, fixture.project, { live: { anchor_ms: 1, open_incidents: 1 } }),
  ];
  const read = () => Promise.all(monitors.map((monitor) => liveOf(fixture.pool, monitor)));
  const before = await read();
  refuse(...monitors, { address: newUuid() });
  startWriter();
  await allWritten();
  expect(await read()).toEqual(before);
});

it('a monitor with rules has its excuse whatever its clock does: a change of the rules may count the time later', async () => {
  const monitor = await seedMonitor(fixture.pool, fixture.project, {
    live: { anchor_ms: 1, rule_states: '{"of":"00000000"}' },
  });
  refuse(monitor);
  startWriter();
  await allWritten();
  expect(await liveOf(fixture.pool, monitor)).toMatchObject({ excused_beats: 1 });
});

it('a run whose end was refused is not overdue, also where no deadline runs or a newer beat has moved it', async () => {
  const now = await readNow();
  const run = { runId: 'a', startedMs: now - 61_000, dueMs: now - 1_000 };
  const runs = { wake_ms: now - 1_000, open_runs: [run] };
  const learns = { max_runtime_seconds: 60, interval_seconds: null };
  const monitors = [
    await seedMonitor(fixture.pool, fixture.project, {
      configuration: learns,
      live: { ...runs, anchor_ms: now - 61_000 },
    }),
    // It was down already: the deadline was missed.
    await seedMonitor(fixture.pool, fixture.project, {
      configuration: { max_runtime_seconds: 60 },
      live: { ...runs, anchor_ms: now - 200_000 },
    }),
    // Another run has ended since: the excuse is older than its beat.
    await seedMonitor(fixture.pool, fixture.project, {
      configuration: { max_runtime_seconds: 60 },
      live: { ...runs, anchor_ms: now + 30_000, deadline_ms: now + 150_000 },
    }),
  ];
  const overdue = await seedMonitor(fixture.pool, fixture.project, {
    configuration: learns,
    live: { ...runs, anchor_ms: now - 61_000 },
  });
  refuse(...monitors);
  startWriter();
  await allWritten();
  await moveClock(fixture.pool);
  await drain(makeSweep(fixture.pool));
  for (const monitor of monitors) {
    expect(await incidentsOf(fixture.pool, monitor)).toEqual([]);
    const { open_runs: runsAfter } = await liveOf(fixture.pool, monitor);
    expect(runsAfter).toMatchObject([{ runId: 'a', mayHaveEnded: true }]);
  }
  expect(await incidentsOf(fixture.pool, overdue)).toMatchObject([{ kind: 'overdue_run' }]);
});

it('an address that has ended earns no excuse, and one that still works earns it for its monitor', async () => {
  const [ended, rotated] = await makeRunning(2);
  if (!ended || !rotated) throw new Error('no monitors were made');
  const setEnd = (monitor: SeedMonitor, seconds: number) =>
    fixture.pool.query(
      "update publish_addresses set ends_at = now() + $2 * interval '1 second' where address = $1",
      [monitor.address, seconds],
    );
  await setEnd(ended, -1);
  await setEnd(rotated, 60);
  const address = newUuid();
  await fixture.pool.query(
    'insert into publish_addresses (address, project_id, monitor_key) values ($1, $2, $3)',
    [address, rotated.projectId, rotated.monitorKey],
  );
  refuse(ended, rotated, { address });
  startWriter();
  await allWritten();
  expect(await liveOf(fixture.pool, ended)).toMatchObject(NONE);
  expect(await liveOf(fixture.pool, rotated)).toMatchObject({ excused_beats: 2 });
});

it('each refused beat counts once although connections break at any byte, also between commit and its answer', async () => {
  const monitor = await makeOne();
  proxy = await TcpProxy.start(fixture.databaseUrl);
  const lane = new Lane(proxy.url);
  const wasCommitted = vi.spyOn(lane, 'wasCommitted');
  startWriter({ lane });
  const faults = 70;
  for (let fault = 0; fault < faults; fault += 1) {
    proxy.resetAfter(1 + fault * 13);
    refuse(monitor);
    await allWritten();
  }
  expect(await liveOf(fixture.pool, monitor)).toMatchObject({ excused_beats: faults });
  const answers = await Promise.allSettled(wasCommitted.mock.results.map(({ value }) => value));
  // On Citus a look-up of shards takes the first bytes: no break comes as late as the answer to a commit.
  if (!isDistributed()) expect(answers).toContainEqual({ status: 'fulfilled', value: true });
  expect(answers).toContainEqual({ status: 'fulfilled', value: false });
});

it('a locked live row does not hold up other excuses, and gets its own when it is free', async () => {
  const monitors = await makeRunning(3);
  const [locked, ...others] = monitors;
  const holder = await fixture.pool.connect();
  await holder.query('begin');
  await holder.query('select from monitor_live where project_id = $1 and monitor_key = $2 for update', [
    locked?.projectId,
    locked?.monitorKey,
  ]);
  refuse(...monitors);
  startWriter({ busyMs: 60_000 });
  await waitFor(() => openBeats.excuses === 1, { what: 'the excuses of the others' });
  for (const monitor of others)
    expect(await liveOf(fixture.pool, monitor)).toMatchObject({ excused_beats: 1 });
  expect(openBeats.oldestAt()).toBeDefined();
  await holder.query('rollback');
  holder.release();
  await allWritten();
  for (const monitor of monitors)
    expect(await liveOf(fixture.pool, monitor)).toMatchObject({ excused_beats: 1 });
  expect(openBeats.lostSpan()).toBeUndefined();
});

it('the excuse of a live row that stays locked becomes an outage for all', async () => {
  const monitor = await makeOne();
  const holder = await fixture.pool.connect();
  await holder.query('begin');
  await holder.query('select from monitor_live where project_id = $1 for update', [monitor.projectId]);
  refuse(monitor);
  const arrivedAt = openBeats.oldestAt();
  startWriter({ busyMs: 300 });
  const span = await waitFor(() => openBeats.lostSpan(), { what: 'the lost span' });
  expect(span).toEqual({ fromAt: arrivedAt, toAt: arrivedAt });
  expect(openBeats.excuses).toBe(0);
  expect(openBeats.oldestAt()).toBe(arrivedAt);
  await holder.query('rollback');
  holder.release();
});

it('excuses that the database refuses for good become an outage for all: detection does not wait for ever', async () => {
  const monitor = await makeOne();
  await fixture.pool.query('alter table monitor_live rename column excused_beats to another');
  refuse(monitor);
  startWriter();
  await waitFor(() => openBeats.lostSpan(), { what: 'the lost span' });
  expect(openBeats.excuses).toBe(0);
});

it('one row that cannot be written loses its own excuse alone', async () => {
  const monitors = await makeRunning(40);
  const [, , bad] = monitors;
  if (!bad) throw new Error('no monitors were made');
  await fixture.pool.query(
    `alter table monitor_live add constraint fault check (excused_beats is null or monitor_key <> '${bad.monitorKey}')`,
  );
  refuse(...monitors);
  startWriter();
  await waitFor(() => openBeats.excuses === 0, { what: 'all excuses are dealt with' });
  const { rows } = await fixture.pool.query(
    'select count(*)::int as excused from monitor_live where excused_beats = 1',
  );
  expect(rows).toEqual([{ excused: 39 }]);
  const span = openBeats.lostSpan();
  expect(span?.fromAt).toBeDefined();
  expect(span?.toAt).toBe(span?.fromAt);
});

it('excuses are kept while connections to the database are made and never answered', async () => {
  const monitor = await makeOne();
  proxy = await TcpProxy.start(fixture.databaseUrl);
  proxy.blackHole();
  refuse(monitor);
  const errors: unknown[] = [];
  startWriter({ lane: new Lane(proxy.url), onError: (error) => errors.push(error) });
  await waitFor(() => errors.length > 0, { what: 'a connection that is given up' });
  expect(openBeats.lostSpan()).toBeUndefined();
  proxy.forward();
  await allWritten();
  expect(await liveOf(fixture.pool, monitor)).toMatchObject({ excused_beats: 1 });
});

it('a body that arrives while the process stands still is not slow', async () => {
  const monitor = await makeOne();
  const server = createServer();
  const { port, close } = await listen(server);
  const sender = connect(port, '127.0.0.1');
  const [receiver] = await once(server, 'connection');
  startWriter();
  const beat = openBeats.begin(monitor.address);
  const read = once(receiver, 'data').then(() => openBeats.end(beat));
  sender.write('the body');
  standStill(fixture.databaseUrl, 1_300);
  await read;
  await allWritten();
  expect(await liveOf(fixture.pool, monitor)).toMatchObject(NONE);
  sender.destroy();
  await close();
});

it('the end of the process waits for beats that are still to be refused, and writes their excuses', async () => {
  const monitor = await makeOne();
  const beat = openBeats.begin(monitor.address);
  const end = startWriter({ closeMs: 60_000 }).close();
  // Handlers wait for the address while the application is closed.
  setTimeout(() => openBeats.refuse(beat), 200);
  expect(await end).toBe(0);
  expect(await liveOf(fixture.pool, monitor)).toMatchObject({ excused_beats: 1 });
});

it('the end of the process writes what is left, and reports what the database does not take', async () => {
  const [first, second] = await makeRunning(2);
  if (!first || !second) throw new Error('no monitors were made');
  refuse(first);
  expect(await startWriter({ closeMs: 60_000 }).close()).toBe(0);
  expect(await liveOf(fixture.pool, first)).toMatchObject({ excused_beats: 1 });

  proxy = await TcpProxy.start(fixture.databaseUrl);
  await proxy.refuse();
  refuse(second);
  expect(await startWriter({ lane: new Lane(proxy.url), closeMs: 300 }).close()).toBe(1);
  expect(openBeats.oldestAt()).toBeDefined();
});
