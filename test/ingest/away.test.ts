// The beat path while the database is away, seen from inside one api: what it notices, and how soon it recovers.
// faults.test.ts tests the same from outside.
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { BeatItem } from '../../src/ingest/apply-items.ts';
import { Batcher } from '../../src/ingest/batcher.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { type DirectoryEntry, MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { openPool } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedMonitor, seedMonitor } from '../support/seed.ts';
import { standStill } from '../support/stand-still.ts';
import { incidentsOf } from '../support/stored-rows.ts';
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

function openDirectory(onError?: (error: unknown) => void): MonitorDirectory {
  const pool = openPool({
    databaseUrl: proxy.url,
    size: 1,
    applicationName: 'addresses',
    statementTimeoutMs: 60_000,
  });
  endings.push(() => pool.end());
  return new MonitorDirectory({ db: pool, minimumIntervalMs: 60_000, patienceMs: 60_000, onError });
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

it('while the database is away an unknown address waits, and a cached one is found at once', async () => {
  const errors: unknown[] = [];
  const directory = openDirectory((error) => errors.push(error));
  await proxy.refuse();
  const unknown = directory.load(monitor.address);
  await waitFor(() => errors.length > 0, { what: 'a failed look-up' });
  await proxy.accept();
  expect(await unknown).toMatchObject({ address: monitor.address });
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

it('a beat that is committed while the process stands still for longer than its patience is answered 200', async () => {
  const directory = openDirectory();
  const entry = await findEntry(directory);
  // Past the proxy, which stands still as well.
  const batcher = new Batcher({ directory, lanes: [new Lane(fixture.databaseUrl)], patienceMs: 400 });
  endings.push(() => batcher.close());
  await waitFor(async () => 'answer' in (await batcher.submit(beatOf(entry))), { what: 'a connected lane' });
  const outcome = batcher.submit(beatOf(entry));
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  standStill(fixture.databaseUrl, 800);
  expect(await outcome).toHaveProperty('answer');
});
