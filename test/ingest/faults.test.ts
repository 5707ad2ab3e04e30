// The beat path while the network and the database fail: every acknowledged beat is stored, the service stores none
// twice, and every sender is answered in time.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedMonitor, seedMonitors } from '../support/seed.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { type PingServer, startPingServer } from './ping-fixture.ts';

let fixture: ProjectFixture;
let proxy: TcpProxy;
let server: PingServer;
let monitors: SeedMonitor[];

beforeEach(async () => {
  fixture = await openProjectFixture();
  proxy = await TcpProxy.start(fixture.databaseUrl);
  server = await startPingServer(proxy.url, { lanes: 2, hasProductPatience: true });
  monitors = await seedMonitors(fixture.pool, fixture.project, 8);
});
afterEach(async () => {
  // The proxy first: a connection that hangs would delay the end of the server.
  await proxy?.close();
  await server?.close();
  await fixture?.close();
});

/** Beats the monitors in turn until it is stopped; counts the acknowledged beats and the statuses. */
function startLoad(clients: number, path: (beat: number) => string) {
  const statuses = new Map<number, number>();
  const acknowledged = new Map<string, number>();
  let isOver = false;
  let beat = 0;
  const client = async (): Promise<void> => {
    while (!isOver) {
      const suffix = path(beat);
      const monitor = monitors[beat % monitors.length];
      beat += 1;
      if (!monitor) return;
      const response = await fetch(`${server.url}/ping/${monitor.address}${suffix}`);
      await response.text();
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
      if (response.ok) acknowledged.set(monitor.monitorKey, (acknowledged.get(monitor.monitorKey) ?? 0) + 1);
    }
  };
  const clientsDone = Promise.all(Array.from({ length: clients }, client));
  return {
    statuses,
    acknowledged,
    stop: async () => {
      isOver = true;
      await clientsDone;
    },
  };
}

async function expectBooksToBalance(acknowledged: Map<string, number>): Promise<void> {
  const { rows } = await fixture.pool.query(
    `select l.monitor_key, l.last_sequence, count(o.sequence)::int as stored, max(o.sequence) as highest
     from monitor_live l left join observations o using (project_id, monitor_key)
     group by l.monitor_key, l.last_sequence`,
  );
  expect(rows).toHaveLength(monitors.length);
  for (const row of rows) {
    expect(row.stored, 'without gaps').toBe(row.last_sequence);
    expect(row.highest ?? 0).toBe(row.last_sequence);
    expect(row.stored, 'no acknowledged beat is missing').toBeGreaterThanOrEqual(
      acknowledged.get(row.monitor_key) ?? 0,
    );
  }
}

const mixed = (beat: number) => ['', '/log', '', '/start', '', '/0'][beat % 6] ?? '';

it('every acknowledged beat is stored when the database connection is reset at any byte of an answer', async () => {
  const load = startLoad(16, mixed);
  for (let fault = 0; fault < 60; fault += 1) {
    const passed = proxy.bytesToClient;
    // At some byte of the answers to the next transactions, also between COMMIT and its answer.
    proxy.resetAfter(1 + ((fault * 37) % 900));
    await waitFor(() => proxy.bytesToClient > passed + 2000, { what: 'answers' });
  }
  await load.stop();
  expect(load.statuses.get(200) ?? 0).toBeGreaterThan(100);
  expect([...load.statuses.keys()].filter((status) => status !== 200 && status !== 503)).toEqual([]);
  await expectBooksToBalance(load.acknowledged);
});

it('every acknowledged beat is stored when the database ends the connections', async () => {
  const load = startLoad(16, mixed);
  for (let kill = 0; kill < 25; kill += 1) {
    const before = load.statuses.get(200) ?? 0;
    await fixture.pool.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'beatkeeper-ingest' and datname = current_database()",
    );
    await waitFor(() => (load.statuses.get(200) ?? 0) > before + 20, {
      what: 'acknowledged beats',
    });
  }
  await load.stop();
  await expectBooksToBalance(load.acknowledged);
});

it('a beat is answered 503 with Retry-After in time while the database hangs, and 200 when it works again', async () => {
  const [monitor] = monitors;
  expect((await fetch(`${server.url}/ping/${monitor?.address}`)).status).toBe(200);
  proxy.blackHole();
  const sentAt = performance.now();
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => fetch(`${server.url}/ping/${monitor?.address}`)),
  );
  // docs/contract/beats.md says 10 s; the rest is for a busy machine.
  expect(performance.now() - sentAt).toBeLessThan(120_000);
  for (const answer of answers) {
    expect(answer.status).toBe(503);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
  }
  proxy.forward();
  await waitFor(async () => (await fetch(`${server.url}/ping/${monitor?.address}`)).status === 200, {
    what: 'the first acknowledgement',
  });
});

it('beats that arrive while the database is away for a moment are stored and answered 200', async () => {
  const [monitor] = monitors;
  expect((await fetch(`${server.url}/ping/${monitor?.address}`)).status).toBe(200);
  await proxy.refuse();
  const waiting = Promise.all(
    Array.from({ length: 20 }, () => fetch(`${server.url}/ping/${monitor?.address}`)),
  );
  await waitFor(() => server.batcher.queued > 0, { what: 'waiting beats' });
  await proxy.accept();
  expect((await waiting).map((answer) => answer.status)).toEqual(Array.from({ length: 20 }, () => 200));
  const { rows } = await fixture.pool.query('select max(last_sequence) as highest from monitor_live');
  expect(rows).toEqual([{ highest: 21 }]);
});
