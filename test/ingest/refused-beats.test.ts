// Beats that the service cannot take, as senders and sweepers see it: a refusal of ours is no silence, and a deliberate
// answer is no refusal (docs/contract/beats.md).
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { newUuid } from '../../src/domain/id.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import {
  dueAt,
  type SeedColumns,
  type SeedMonitor,
  type SeedProject,
  seedMonitor,
  seedProject,
} from '../support/seed.ts';
import { incidentsOf, liveOf, observationsOf, timelineOf } from '../support/stored-rows.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { type PingServer, type PingServerOptions, startPingServer } from './ping-fixture.ts';

const NEVER_MS = 1_000_000_000;

let fixture: ProjectFixture;
let proxy: TcpProxy;
let server: PingServer;

beforeEach(async () => {
  fixture = await openProjectFixture();
  proxy = await TcpProxy.start(fixture.databaseUrl);
});
afterEach(async () => {
  // The proxy first: a connection that hangs would delay the end of the server.
  await proxy?.close();
  await server?.close();
  await fixture?.close();
});

/** Refuses beats soon while its database is away. */
async function startServer(options: PingServerOptions = {}): Promise<void> {
  server = await startPingServer(proxy.url, { patienceMs: 300, ...options });
}

const readNow = async (): Promise<number> =>
  (await fixture.pool.query('select (extract(epoch from clock_timestamp()) * 1000)::bigint as now')).rows[0]
    .now;

/** Its deadline comes in 90 s. */
const makeMonitor = async (
  columns: SeedColumns = {},
  project: SeedProject = fixture.project,
): Promise<SeedMonitor> => {
  const { live } = dueAt((await readNow()) + 90_000);
  return await seedMonitor(fixture.pool, project, { ...columns, live: { ...live, ...columns.live } });
};

const send = (monitor: { address: string }, suffix = '', init: RequestInit = {}) =>
  fetch(`${server.url}/ping/${monitor.address}${suffix}`, init);

const json = (body: unknown): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});

/** Makes the address known to the server. A log moves nothing. */
async function makeKnown(monitor: SeedMonitor): Promise<void> {
  await waitFor(async () => (await send(monitor, '/log')).ok, { what: 'an accepted log' });
}

const allSettled = () =>
  waitFor(() => server.openBeats.oldestAt() === undefined, { what: 'every beat is settled' });

it.each([
  ['known', makeKnown],
  ['one that the process has never seen', async () => undefined],
])('a beat refused while the database is away excuses its monitor; address: %s', async (_, prepare) => {
  await startServer({ patienceMs: 5_000 });
  const monitor = await makeMonitor();
  await prepare(monitor);
  const before = await liveOf(fixture.pool, monitor);
  await proxy.refuse();
  const sentMs = await readNow();
  expect((await send(monitor)).status).toBe(503);
  expect(server.openBeats.oldestAt()).toBeDefined();
  const refusedMs = await readNow();
  await proxy.accept();
  await allSettled();
  const after = await liveOf(fixture.pool, monitor);
  const { excused_ms: excusedMs } = after;
  expect(after).toEqual({ ...before, excused_from_ms: excusedMs, excused_ms: excusedMs, excused_beats: 1 });
  // The moment of the arrival, not that of the refusal.
  expect(excusedMs).toBeGreaterThanOrEqual(sentMs);
  expect(excusedMs).toBeLessThan(refusedMs);
});

it('success, fail, and a beat whose content is refused are excused; start and log are not', async () => {
  await startServer();
  const bodies: [string, RequestInit?][] = [
    ['', undefined],
    ['/fail', undefined],
    ['/1', { method: 'POST', body: 'the output' }],
    ['', json({ status: 'success' })],
    ['', json({ status: 'nonsense' })],
    ['', { headers: { accept: 'application/json' } }],
    ['/start', undefined],
    ['/log', { method: 'POST', body: 'the output' }],
    ['', json({ status: 'start' })],
    ['', json({ status: 'log' })],
    ['', json({ status: 'log', runId: '-' })],
    ['/log', json({ status: 'nonsense' })],
  ];
  const monitors: SeedMonitor[] = [];
  for (const _ of bodies) monitors.push(await makeMonitor());
  for (const monitor of monitors) await makeKnown(monitor);
  await proxy.refuse();
  const answers = await Promise.all(
    bodies.map(([suffix, init], index) => send(monitors[index] as SeedMonitor, suffix, init)),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]));
  await proxy.accept();
  await allSettled();
  const excused = await Promise.all(
    monitors.map(async (monitor) => (await liveOf(fixture.pool, monitor)).excused_beats),
  );
  expect(excused).toEqual([1, 1, 1, 1, 1, 1, null, null, null, null, null, null]);
});

it('deliberate answers are no refusals of ours', async () => {
  await startServer({ patienceMs: 60_000 });
  const monitor = await makeMonitor();
  const archived = await makeMonitor({ configuration: { lifecycle: 'archived' } });
  const other = await seedProject(fixture.pool);
  const suspended = await makeMonitor({}, other);
  await fixture.pool.query(
    "update organizations set service_state = 'abuse_suspended' where organization_id = $1",
    [other.organizationId],
  );
  const busy = await makeMonitor({ live: { tokens: -1_000_000, tokens_ms: await readNow() } });
  const statuses = [
    await send(monitor, '', json({ status: 'nonsense' })),
    await send(monitor, '', { headers: { 'idempotency-key': '!' } }),
    await send({ address: newUuid() }),
    await send({ address: 'nonsense' }),
    await send(monitor, '/256'),
    await send(monitor, '', { method: 'PUT' }),
    await send(archived),
    await send(monitor, '', json({ message: 'x'.repeat(20_000) })),
    await send(monitor, '', { ...json({}), headers: { 'content-encoding': 'br' } }),
    await send(busy),
    await send(suspended),
  ].map(({ status }) => status);
  expect(statuses).toEqual([400, 400, 404, 404, 404, 405, 409, 413, 415, 429, 403]);
  expect(server.openBeats.oldestAt()).toBeUndefined();
  expect(server.openBeats.excuses).toBe(0);
});

it('the oldest open beat is the one that waits for the database, until it is committed', async () => {
  await startServer({ patienceMs: 60_000 });
  const monitor = await makeMonitor();
  await makeKnown(monitor);
  expect(server.openBeats.oldestAt()).toBeUndefined();
  const lock = await fixture.pool.connect();
  await lock.query('begin');
  await lock.query('select from monitor_live where project_id = $1 for update', [monitor.projectId]);
  const sentAt = performance.now();
  const answer = send(monitor);
  const oldestAt = await waitFor(() => server.openBeats.oldestAt(), { what: 'the open beat' });
  expect(oldestAt).toBeGreaterThanOrEqual(sentAt);
  await lock.query('rollback');
  lock.release();
  expect((await answer).status).toBe(200);
  expect(server.openBeats.oldestAt()).toBeUndefined();
  expect(server.openBeats.excuses).toBe(0);
});

/** Sends a POST without the end of its body. */
function beginPost(monitor: SeedMonitor, type: string) {
  const { hostname, port } = new URL(server.url);
  const socket = connect({ host: hostname, port: Number(port) });
  let answer = '';
  socket.on('data', (data) => {
    answer += data;
  });
  const request = `POST /ping/${monitor.address} HTTP/1.1\r\nhost: x\r\ncontent-type: ${type}\r\ncontent-length: 2\r\n\r\n{`;
  const written = new Promise<void>((resolve) => socket.write(request, () => resolve()));
  return { socket, written, answered: () => waitFor(() => answer !== '' && answer, { what: 'the answer' }) };
}

it('a beat with a slow body is excused before its body has come, and is accepted when it has', async () => {
  await startServer({ patienceMs: 60_000 });
  const monitor = await makeMonitor();
  const post = beginPost(monitor, 'application/json');
  await waitFor(async () => (await liveOf(fixture.pool, monitor)).excused_beats === 1, {
    what: 'the excuse',
  });
  await allSettled();
  post.socket.write('}');
  expect(await post.answered()).toContain('200 OK');
  post.socket.destroy();
  const live = await liveOf(fixture.pool, monitor);
  expect(live).toMatchObject({ last_sequence: 1, excused_beats: 1 });
  // The accepted beat is later: the excuse moves nothing any more.
  expect(live.anchor_ms).toBeGreaterThan(live.excused_ms);
  expect(server.openBeats.excuses).toBe(0);
});

it('a sender that gives up before the refusal, or in the middle of its body, counts as alive', async () => {
  await startServer();
  const [patient, silent] = [await makeMonitor(), await makeMonitor()];
  await makeKnown(patient);
  await makeKnown(silent);
  await proxy.refuse();
  const controller = new AbortController();
  const given = send(patient, '', { signal: controller.signal }).catch(() => 'given up');
  await waitFor(() => server.openBeats.oldestAt(), { what: 'the beat' });
  controller.abort();
  const post = beginPost(silent, 'text/plain');
  await post.written;
  post.socket.destroy();
  expect(await given).toBe('given up');
  await waitFor(() => server.openBeats.excuses === 2, { what: 'the excuses' });
  await proxy.accept();
  await allSettled();
  for (const monitor of [patient, silent]) {
    expect(await liveOf(fixture.pool, monitor)).toMatchObject({ excused_beats: 1 });
  }
});

it('a sender that leaves while its address is looked up is not waited for', async () => {
  await startServer({ bodyTimeMs: 600_000, patienceMs: 60_000 });
  const monitor = await makeMonitor();
  const { anchor_ms: anchorMs } = await liveOf(fixture.pool, monitor);
  await proxy.refuse();
  const post = beginPost(monitor, 'text/plain');
  await waitFor(() => server.openBeats.oldestAt(), { what: 'the beat' });
  post.socket.destroy();
  await once(post.socket, 'close');
  await proxy.accept();
  const isMoved = async () => (await liveOf(fixture.pool, monitor)).anchor_ms > anchorMs;
  await waitFor(isMoved, { what: 'the moved deadline' });
  await allSettled();
});

it('a refused beat puts the alert off by a full interval and grace, and the incident names it', async () => {
  await startServer({ patienceMs: 5_000 });
  const monitor = await seedMonitor(fixture.pool, fixture.project, {
    configuration: { interval_seconds: 1, grace_seconds: 1 },
  });
  expect((await send(monitor)).status).toBe(200);
  const acceptedMs = (await liveOf(fixture.pool, monitor)).anchor_ms;
  await proxy.refuse();
  expect((await send(monitor)).status).toBe(503);
  await proxy.accept();
  await allSettled();
  const { excused_ms: refusedMs } = await liveOf(fixture.pool, monitor);
  expect(refusedMs).toBeGreaterThan(acceptedMs);

  await waitFor(async () => (await readNow()) > refusedMs + 2_000, { what: 'the deadline' });
  await moveClock(fixture.pool, refusedMs + 1_999);
  await drain(makeSweep(fixture.pool));
  expect(await incidentsOf(fixture.pool, monitor)).toEqual([]);
  await moveClock(fixture.pool, refusedMs + 2_000);
  await drain(makeSweep(fixture.pool));
  const [incident, ...others] = await incidentsOf(fixture.pool, monitor);
  expect(others).toEqual([]);
  const entries = await timelineOf(fixture.pool, incident?.incident_id);
  const at = new Date(refusedMs).toISOString();
  expect(entries.map(({ type, detail }) => ({ type, detail }))).toContainEqual({
    type: 'service_outage',
    detail: { from: at, to: at, refusedBeats: 1 },
  });
  // The refused beat itself is not recorded.
  expect(await observationsOf(fixture.pool, monitor)).toHaveLength(1);
});

it('what a request has lain unread counts as the wait of its beat', async () => {
  await startServer({ patienceMs: NEVER_MS, waitedMs: NEVER_MS });
  const monitor = await makeMonitor();
  const holder = await fixture.pool.connect();
  try {
    await holder.query('begin; lock table observations in access exclusive mode');
    expect((await send(monitor)).status).toBe(503);
  } finally {
    holder.release(true);
  }
});
