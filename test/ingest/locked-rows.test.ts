// Beats while somebody holds locks that they need: one locked row keeps out the beats of its own monitor alone.
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { BeatItem } from '../../src/ingest/apply-items.ts';
import { Batcher } from '../../src/ingest/batcher.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { type DirectoryEntry, MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import type { Connection } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedMonitor, seedMonitor } from '../support/seed.ts';
import { incidentsOf, liveOf } from '../support/stored-rows.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;
let directory: MonitorDirectory;
let monitor: SeedMonitor;
let locked: DirectoryEntry;
let free: DirectoryEntry;
let holder: Connection;
let batchers: Batcher[];

beforeEach(async () => {
  batchers = [];
  fixture = await openProjectFixture();
  directory = new MonitorDirectory({ db: fixture.pool, minimumIntervalMs: 60_000 });
  monitor = await seedMonitor(fixture.pool, fixture.project);
  locked = await findEntry(monitor);
  free = await findEntry(await seedMonitor(fixture.pool, fixture.project));
  holder = await fixture.pool.connect();
  await holder.query('begin');
});
afterEach(async () => {
  holder?.release(true);
  for (const batcher of batchers) await batcher.close();
  await fixture?.close();
});

async function findEntry({ address }: SeedMonitor): Promise<DirectoryEntry> {
  const entry = await directory.load(address);
  if (!entry) throw new Error('the address was not found');
  return entry;
}

function openBatcher({ patienceMs = 60_000 } = {}): { batcher: Batcher; errors: unknown[] } {
  const errors: unknown[] = [];
  const lanes = [new Lane(fixture.databaseUrl)];
  const batcher = new Batcher({ directory, lanes, patienceMs, onError: (error) => errors.push(error) });
  batchers.push(batcher);
  return { batcher, errors };
}

const lockRow = () =>
  holder.query('select from monitor_live where project_id = $1 and monitor_key = $2 for update', [
    monitor.projectId,
    monitor.monitorKey,
  ]);

const plain = (entry: DirectoryEntry): BeatItem => ({ entry, beat: { kind: 'success' } });
const detailed = (entry: DirectoryEntry): BeatItem => ({ entry, beat: { kind: 'success', message: 'm' } });

it.each([
  ['plain beats', plain],
  ['beats with a message', detailed],
])(
  'while one live row is locked the %s of other monitors are stored, and its own when it is free',
  async (_, beatOf) => {
    await lockRow();
    const { batcher } = openBatcher();
    const waiting = batcher.submit(beatOf(locked));
    for (let beat = 1; beat <= 20; beat += 1) {
      expect(await batcher.submit(beatOf(free))).toMatchObject({ answer: { sequence: beat } });
    }
    expect((await liveOf(fixture.pool, monitor)).last_sequence).toBe(0);
    await holder.query('rollback');
    expect(await waiting).toMatchObject({ answer: { sequence: 1 } });
  },
);

it('the beats that wait for a locked row are stored in their order, with those that come later', async () => {
  await lockRow();
  const { batcher } = openBatcher();
  const first = batcher.submit({ entry: locked, beat: { kind: 'fail' } });
  await waitFor(() => batcher.queued > 0, { what: 'the lock is met' });
  const second = batcher.submit(plain(locked));
  expect(await batcher.submit(plain(free))).toHaveProperty('answer');
  await holder.query('rollback');
  expect(await first).toMatchObject({ answer: { sequence: 1 } });
  expect(await second).toMatchObject({ answer: { sequence: 2 } });
  expect(await incidentsOf(fixture.pool, monitor)).toMatchObject([{ state: 'recovered' }]);
});

it('a flood to one locked row takes a few hundred places, and the beats that got one are stored in order', async () => {
  await lockRow();
  const { batcher } = openBatcher();
  const outcomes = [batcher.submit(plain(locked))];
  await waitFor(() => batcher.queued > 0, { what: 'the lock is met' });
  let refused = 0;
  for (let beat = 0; beat < 3_000; beat += 1) outcomes.push(batcher.submit(plain(locked)));
  for (const outcome of outcomes) {
    void outcome.then((result) => {
      if ('problem' in result) refused += 1;
    });
  }
  await waitFor(() => refused > 2_000, { what: 'the refusals' });
  expect(batcher.queued).toBeLessThan(1_000);
  expect(await batcher.submit(plain(free))).toHaveProperty('answer');
  await holder.query('rollback');
  const settled = await Promise.all(outcomes);
  const sequences = settled.flatMap((outcome) => ('answer' in outcome ? [outcome.answer.sequence] : []));
  expect(sequences).toEqual(sequences.map((_, index) => index + 1));
  expect(sequences.length + refused).toBe(settled.length);
  expect((await liveOf(fixture.pool, monitor)).last_sequence).toBe(sequences.length);
});

it('a beat whose row stays locked is refused when its patience ends', async () => {
  await lockRow();
  const { batcher } = openBatcher({ patienceMs: 1_000 });
  expect(await batcher.submit(plain(locked))).toMatchObject({
    problem: { code: 'temporarily_unavailable' },
  });
  expect(await batcher.submit(plain(free))).toHaveProperty('answer');
});

it('the beat of a monitor that the holder of its row deletes is answered like one to an unknown address', async () => {
  await holder.query('delete from monitor_live where monitor_key = $1', [monitor.monitorKey]);
  const { batcher } = openBatcher();
  const waiting = batcher.submit(plain(locked));
  await waitFor(() => batcher.queued > 0, { what: 'the lock is met' });
  await holder.query('commit');
  expect(await waiting).toMatchObject({ problem: { code: 'not_found' } });
});

it('a lock on a whole table delays all beats over the same connection, and each is stored once', async () => {
  await holder.query('lock table observations in access exclusive mode');
  const { batcher, errors } = openBatcher();
  const lanesOf = async () =>
    (
      await fixture.pool.query(
        "select pid from pg_stat_activity where application_name = 'beatkeeper-ingest' and datname = current_database()",
      )
    ).rows;
  const waiting = [plain(locked), detailed(free)].map((item) => batcher.submit(item));
  const lanes = await waitFor(async () => (errors.length > 2 ? await lanesOf() : undefined), {
    what: 'several attempts',
  });
  await holder.query('rollback');
  for (const outcome of await Promise.all(waiting)) {
    expect(outcome).toMatchObject({ answer: { sequence: 1 } });
  }
  expect(await lanesOf()).toEqual(lanes);
  const { rows } = await fixture.pool.query('select count(*)::int as stored from observations');
  expect(rows).toEqual([{ stored: 2 }]);
});
