// The service clock as an api keeps it: what it writes while beats are open, after a stall, and at its end.
import { createServer, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type LocalSpan, type ServiceClock, startServiceClock } from '../../src/api/service-clock.ts';
import { startApi } from '../../src/api/start-api.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { readOutages } from '../../src/store/upkeep/service-clock.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { makeConfig } from '../support/make-config.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;
let clock: ServiceClock | undefined;
/** What the clock asks of the beats of its process. */
let oldestAt: number | undefined;
let lostSpan: LocalSpan | undefined;

beforeEach(async () => {
  fixture = await openProjectFixture();
  oldestAt = undefined;
  lostSpan = undefined;
});
afterEach(async () => {
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
      { what: 'the next sign of life', timeoutMs: 30_000 },
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

it.each([600, 2_300])(
  'a beat that arrived while the process stood still for %i ms holds the clock from before the stall',
  async (stallMs) => {
    const arrived: Socket[] = [];
    const server = createServer((socket) =>
      socket.once('data', () => {
        arrived.push(socket);
        oldestAt ??= performance.now();
      }),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    // A sender of its own thread: it sends while this one stands still.
    const sender = new Worker(
      `const { parentPort, workerData } = require('node:worker_threads');
     const socket = require('node:net').connect(workerData.port, '127.0.0.1', () => parentPort.postMessage('connected'));
     parentPort.once('message', () => socket.write('x'));`,
      { eval: true, workerData: { port } },
    );
    try {
      start();
      await new Promise((resolve) => sender.once('message', resolve));
      await nextRow();
      sender.postMessage('send');
      const untilAt = performance.now() + stallMs;
      while (performance.now() < untilAt);
      const afterMs = await readNow(fixture.pool);
      const row = await nextRow(2);
      expect(arrived).toHaveLength(1);
      // By the database's clock the stall began at this moment or earlier.
      expect(row.decided_ms).toBeLessThanOrEqual(afterMs - stallMs);
    } finally {
      await sender.terminate();
      for (const socket of arrived) socket.destroy();
      server.close();
    }
  },
);

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
