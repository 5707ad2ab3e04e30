// How the beat path looks up monitors, and for how long it caches them.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { openPool } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { seedMonitor, seedMonitors } from '../support/seed.ts';
import { standStill } from '../support/stand-still.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

const MINUTE_MS = 60_000;

let fixture: ProjectFixture;

beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

it('a cached monitor of the shortest interval is reused for ten minutes and then reloaded with its new plan', async () => {
  const { pool, project } = fixture;
  let nowMs = 0;
  const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: MINUTE_MS, now: () => nowMs });
  const { address } = await seedMonitor(pool, project);
  expect((await directory.load(address))?.tenant.planId).toBe('scale');
  await pool.query("update organizations set plan = 'pro' where organization_id = $1", [
    project.organizationId,
  ]);
  nowMs = 9 * MINUTE_MS;
  expect(directory.peek(address)?.tenant.planId).toBe('scale');
  nowMs = 10 * MINUTE_MS + 1;
  expect(directory.peek(address)).toBeUndefined();
  expect((await directory.load(address))?.tenant.planId).toBe('pro');
});

it('many addresses are looked up in statements of 256, one for each part', async () => {
  const { pool, project } = fixture;
  const monitors = await seedMonitors(pool, project, 600);
  const sizes: number[] = [];
  const query = (statement: { values: unknown[][] }) => {
    sizes.push(statement.values[0]?.length ?? 0);
    return pool.query(statement as never);
  };
  const directory = new MonitorDirectory({ db: { query } as never, minimumIntervalMs: MINUTE_MS });
  const entries = await Promise.all(monitors.map(({ address }) => directory.load(address)));
  expect(entries.map((entry) => entry?.monitor.monitorKey)).toEqual(monitors.map((it) => it.monitorKey));
  // The first address is asked for at once.
  expect(sizes).toEqual([1, 256, 256, 87]);
});

it('addresses that were loaded ahead are found without the database', async () => {
  const { pool, project } = fixture;
  const monitors = await seedMonitors(pool, project, 1_500);
  const all = new MonitorDirectory({ db: pool, minimumIntervalMs: MINUTE_MS });
  await all.preload();
  for (const { address, monitorKey } of monitors) {
    expect(all.peek(address)?.monitor.monitorKey).toBe(monitorKey);
  }
});

it('as many addresses are loaded ahead as are kept, and no more are read', async () => {
  const { pool, project } = fixture;
  await seedMonitors(pool, project, 1_500);
  let read = 0;
  const query = async (statement: never) => {
    const { rows } = await pool.query<object>(statement);
    read += rows.length;
    return { rows };
  };
  const directory = new MonitorDirectory({
    db: { query } as never,
    minimumIntervalMs: MINUTE_MS,
    capacity: 1_200,
  });
  await directory.preload();
  expect(read).toBe(1_200);
  const { rows } = await pool.query<{ address: string }>('select address from publish_addresses');
  expect(rows.filter(({ address }) => directory.peek(address)).length).toBe(1_200);
});

/** Its look-ups hang for longer than any test runs. */
async function openHanging(patienceMs: number) {
  const proxy = await TcpProxy.start(fixture.databaseUrl);
  const pool = openPool({
    databaseUrl: proxy.url,
    size: 1,
    applicationName: 'addresses',
    statementTimeoutMs: 600_000,
    connectTimeoutMs: 600_000,
  });
  await pool.query('select 1');
  proxy.blackHole();
  return {
    directory: new MonitorDirectory({ db: pool, minimumIntervalMs: MINUTE_MS, patienceMs }),
    close: async () => {
      await proxy.close();
      await pool.end();
    },
  };
}

it('no waiter waits past its own patience for a look-up that hangs, also one that comes later', async () => {
  const { address } = await seedMonitor(fixture.pool, fixture.project);
  const { directory, close } = await openHanging(300);
  const first = expect(directory.load(address)).rejects.toThrow('in time');
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  await expect(directory.load(address)).rejects.toThrow('in time');
  await first;
  await close();
});

it('addresses are not loaded ahead while the database is away, and the start goes on', async () => {
  const proxy = await TcpProxy.start(fixture.databaseUrl);
  const pool = openPool({ databaseUrl: proxy.url, size: 1, applicationName: 'addresses' });
  await proxy.refuse();
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  await new MonitorDirectory({ db: pool, minimumIntervalMs: MINUTE_MS, onError }).preload();
  expect(errors).toHaveLength(1);
  await pool.end();
  await proxy.close();
});

it('an address is found whose answer comes while the process stands still for longer than the patience', async () => {
  const { pool, project } = fixture;
  const { address } = await seedMonitor(pool, project);
  const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: MINUTE_MS, patienceMs: 200 });
  const found = directory.load(address);
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  standStill(fixture.databaseUrl, 500);
  expect(await found).toMatchObject({ address });
});
