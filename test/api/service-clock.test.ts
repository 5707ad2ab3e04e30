// The service clock as an api keeps it: what it writes while beats are open, after a stall, and at its end.
import { createServer, type Server } from 'node:http';
import { connect } from 'node:net';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type LocalSpan, type ServiceClock, startServiceClock } from '../../src/api/service-clock.ts';
import { startApi } from '../../src/api/start-api.ts';
import { ArrivalProbe } from '../../src/ingest/arrival-probe.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { readOutages } from '../../src/store/upkeep/service-clock.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type Listening, listen } from '../support/listen.ts';
import { makeConfig } from '../support/make-config.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;
let clock: ServiceClock | undefined;
/** What the clock asks of the beats of its process. */
let oldestAt: number | undefined;
let lostSpan: LocalSpan | undefined;
/** The server of the process, and up to when everything that has arrived at it is read. */
let server: Server;
let listening: Listening;
let arrivals: ArrivalProbe;
/** Since when a connection waits to be read. */
let unreadSinceAt: number;
/** Lengths of the spans in which connections may have been lost. */
let lostMs: number[];
/** Called with each beat. */
let onBeat: () => void;
/** So many of the process's own calls get no answer. */
let callsToLose: number;

beforeEach(async () => {
  fixture = await openProjectFixture();
  oldestAt = undefined;
  lostSpan = undefined;
  callsToLose = 0;
  server = createServer((request, response) => {
    if (request.url === '/ping') onBeat();
    if (request.url === '/' && callsToLose > 0) {
      callsToLose -= 1;
      return;
    }
    response.end();
  });
  unreadSinceAt = Number.POSITIVE_INFINITY;
  lostMs = [];
  arrivals = new ArrivalProbe((fromAt, toAt) => lostMs.push(toAt - fromAt));
  arrivals.watch(server, () => unreadSinceAt);
  listening = await listen(server);
});
afterEach(async () => {
  await listening?.close();
  arrivals?.stop();
  await clock?.stop();
  clock = undefined;
  await fixture?.close();
});

const log = createLog({ role: 'test', level: process.env.TEST_LOG_LEVEL ?? 'silent' });

function start(): void {
  clock = startServiceClock({
    pool: fixture.pool,
    log,
    address: 'here',
    arrivals,
    openBeats: {
      oldestAt: () => oldestAt,
      lostSpan: () => lostSpan,
      settleLost() {
        lostSpan = undefined;
      },
    },
  });
}

interface Row {
  decided_ms: number;
  seen_ms: number;
  ended: boolean;
}

async function readRow(): Promise<Row> {
  const { rows } = await fixture.pool.query<Row>('select decided_ms, seen_ms, ended from service_clock');
  const [row] = rows;
  if (!row) throw new Error('the clock has no row');
  return row;
}

/** Resolves to the row when the clock has written it `times` more. */
async function nextRow(times = 1): Promise<Row> {
  let row = await waitFor(readRow, { what: 'the row of the clock' });
  for (let time = 0; time < times; time += 1) {
    const { seen_ms: seenMs } = row;
    row = await waitFor(
      async () => {
        const next = await readRow();
        return next.seen_ms > seenMs && next;
      },
      { what: 'the next sign of life' },
    );
  }
  return row;
}

it('the clock stands at the oldest open beat while the api lives, and follows when it is decided', async () => {
  start();
  await nextRow();
  const beforeMs = await readNow(fixture.pool);
  oldestAt = performance.now();
  const afterMs = await readNow(fixture.pool);
  const held = await nextRow(2);
  expect(held.decided_ms).toBeLessThanOrEqual(afterMs);
  const later = await nextRow(2);
  expect(later.decided_ms).toBeLessThanOrEqual(afterMs);
  // The estimate is from below: it may be earlier by the time of a statement.
  expect(later.decided_ms).toBeGreaterThan(beforeMs - 10_000);
  expect(later.seen_ms).toBeGreaterThan(afterMs);
  oldestAt = undefined;
  expect((await nextRow(2)).decided_ms).toBeGreaterThan(afterMs);
});

it('refusals that could not be remembered become an outage of their span', async () => {
  start();
  await nextRow();
  const beforeMs = await readNow(fixture.pool);
  const fromAt = performance.now();
  const midMs = await readNow(fixture.pool);
  lostSpan = { fromAt, toAt: performance.now() };
  const afterMs = await readNow(fixture.pool);
  await waitFor(() => lostSpan === undefined, { what: 'the outage' });
  const found = (await readOutages(fixture.pool, 0)).filter(
    ({ fromMs, toMs }) => fromMs <= midMs && toMs >= midMs,
  );
  expect(found).toHaveLength(1);
  expect(found[0]?.fromMs).toBeGreaterThan(beforeMs - 10_000);
  expect(found[0]?.toMs).toBeLessThan(afterMs + 10_000);
});

it('an api that stops with nothing left ends its row, and one that still holds a beat does not', async () => {
  start();
  await nextRow();
  await clock?.stop();
  expect(await readRow()).toMatchObject({ ended: true });
  await fixture.pool.query('truncate service_clock');
  start();
  await nextRow();
  oldestAt = performance.now();
  await clock?.stop();
  expect(await readRow()).toMatchObject({ ended: false });
});

it('an api that refuses connections stands there until its end, and ends there', async () => {
  start();
  await nextRow();
  const leftAt = await readNow(fixture.pool);
  clock?.leave();
  const afterMs = await readNow(fixture.pool);
  const { seen_ms: seenMs, decided_ms: decidedMs } = await nextRow(3);
  expect(decidedMs).toBeLessThanOrEqual(afterMs);
  expect(seenMs).toBeGreaterThan(afterMs);
  await clock?.stop();
  const row = await readRow();
  expect(row).toMatchObject({ ended: true, decided_ms: row.seen_ms });
  expect(row.seen_ms).toBeLessThanOrEqual(afterMs);
  expect(row.seen_ms).toBeGreaterThan(leftAt - 10_000);
});

/** Senders in a thread of their own, which send while this one stands still: each has a connection and a beat. */
async function openSenders(count: number, { areConnected }: { areConnected: boolean }): Promise<Worker> {
  const worker = new Worker(
    `const { parentPort, workerData: { port, count, areConnected } } = require('node:worker_threads');
     const { connect } = require('node:net');
     const beat = (socket) => socket.write('GET /ping HTTP/1.1\\r\\nHost: here\\r\\n\\r\\n');
     const open = () => Array.from({ length: count }, () => connect(port, '127.0.0.1'));
     const sockets = areConnected ? open() : [];
     parentPort.once('message', () => (areConnected ? sockets : open()).forEach(beat));
     const connected = sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve)));
     Promise.all(connected).then(() => parentPort.postMessage('ready'));`,
    { eval: true, workerData: { port: listening.port, count, areConnected } },
  );
  await new Promise((resolve) => worker.once('message', resolve));
  return worker;
}

function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

it.each([600, 2_300])(
  'a beat that arrived while the process stood still for %i ms holds the clock from before the stall',
  async (stallMs) => {
    let beats = 0;
    onBeat = () => {
      beats += 1;
      oldestAt ??= performance.now();
    };
    const sender = await openSenders(1, { areConnected: true });
    try {
      start();
      await nextRow();
      sender.postMessage('send');
      standStill(stallMs);
      const afterMs = await readNow(fixture.pool);
      const row = await nextRow(2);
      expect(beats).toBe(1);
      // By the database's clock the stall began at this moment or earlier.
      expect(row.decided_ms).toBeLessThanOrEqual(afterMs - stallMs);
    } finally {
      await sender.terminate();
    }
  },
);

it('connections that wait to be accepted hold the clock, because each turn of the event loop accepts one', async () => {
  const count = 100;
  let beats = 0;
  onBeat = () => {
    beats += 1;
  };
  const senders = await openSenders(count, { areConnected: false });
  let isSlow = true;
  const turn = () => {
    standStill(100);
    if (isSlow) setImmediate(turn);
  };
  try {
    start();
    await nextRow();
    senders.postMessage('send');
    standStill(1_000);
    turn();
    const sentMs = await readNow(fixture.pool);
    const row = await nextRow(2);
    expect(beats).toBeLessThan(count);
    expect(row.decided_ms).toBeLessThanOrEqual(sentMs);
    await waitFor(() => beats === count, { what: 'each beat is read' });
    isSlow = false;
    expect((await nextRow(2)).decided_ms).toBeGreaterThan(sentMs);
    expect(Math.max(...lostMs)).toBeGreaterThan(3_000);
  } finally {
    isSlow = false;
    await senders.terminate();
  }
});

it('a process that is full of connections still knows what it has read, and takes its own call for no sender', async () => {
  const idle = connect(listening.port, '127.0.0.1');
  const isFull = async () =>
    await new Promise((resolve) => server.getConnections((_error, count) => resolve(count > 0)));
  await waitFor(async () => !idle.connecting && (await isFull()), { what: 'a connection' });
  server.maxConnections = 1;
  const fullAt = performance.now();
  await waitFor(() => arrivals.knownAt > fullAt + 1_000, { what: 'calls that are dropped' });
  expect(lostMs).toEqual([]);
  const sender = connect(listening.port, '127.0.0.1').on('error', () => undefined);
  await waitFor(() => lostMs.length > 0, { what: 'a sender that is dropped' });
  expect(arrivals.knownAt).toBeGreaterThan(fullAt);
  for (const socket of [idle, sender]) socket.destroy();
});

it('a call of the process to itself that is lost does not hide what later ones show, and makes an outage', async () => {
  callsToLose = 1;
  await waitFor(() => callsToLose === 0, { what: 'the call' });
  const lostAt = performance.now();
  await waitFor(() => arrivals.knownAt > lostAt, { what: 'the answer to a later call' });
  await waitFor(() => lostMs.some((ms) => ms > 10_000), { what: 'the end of the call' });
});

it('a connection that has to wait until it is read holds the clock', async () => {
  start();
  await nextRow();
  unreadSinceAt = performance.now();
  const afterMs = await readNow(fixture.pool);
  const held = await nextRow(4);
  expect(held.decided_ms).toBeLessThanOrEqual(afterMs);
  // A beat that is read now may have arrived since then.
  expect(arrivals.earliestArrival(performance.now())).toBeLessThanOrEqual(unreadSinceAt);
  unreadSinceAt = Number.POSITIVE_INFINITY;
  await waitFor(async () => (await nextRow()).decided_ms > afterMs, { what: 'the clock goes on' });
});

it('two apis that run and end one after the other leave no outage but that in which none ran', async () => {
  const telemetry = () => createTelemetry({ role: 'api', logLevel: 'silent' });
  const run = (instanceName: string) =>
    startApi(makeConfig(fixture.databaseUrl, { instanceName }), telemetry());
  const first = await run('first');
  const second = await run('second');
  const rows = async () =>
    (await fixture.pool.query('select address, ended from service_clock order by address')).rows;
  await waitFor(async () => (await rows()).length === 2, { what: 'both rows' });
  await first.close();
  expect(await rows()).toEqual([
    { address: 'first', ended: true },
    { address: 'second', ended: false },
  ]);
  await second.close();
  // Half a minute passes.
  await fixture.pool.query(
    'update service_clock set decided_ms = decided_ms - 30000, seen_ms = seen_ms - 30000',
  );
  const third = await run('third');
  await waitFor(async () => (await rows()).length === 3, { what: 'the row of the third' });
  await third.close();
  // Seconds in which the machine stood still may be outages too.
  const long = (await readOutages(fixture.pool, 0)).filter(({ fromMs, toMs }) => toMs - fromMs >= 30_000);
  expect(long).toHaveLength(1);
});
