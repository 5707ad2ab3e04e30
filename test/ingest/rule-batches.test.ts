// What rules may take of a batch: a bounded number of looks and incidents, so that the beats of others wait for no more.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { BeatItem } from '../../src/ingest/apply-items.ts';
import { Batcher } from '../../src/ingest/batcher.ts';
import { type BatchResult, runBeatTransaction } from '../../src/ingest/beat-transaction.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { type SeedMonitor, seedMonitors, seedProject } from '../support/seed.ts';
import { incidentsOf } from '../support/stored-rows.ts';
import { waitFor } from '../support/wait-for.ts';
import { openPingFixture, type PingFixture } from './ping-fixture.ts';

let fixture: PingFixture;
let lane: Lane;
let directory: MonitorDirectory;

beforeAll(async () => {
  fixture = await openPingFixture();
  directory = new MonitorDirectory({ db: fixture.pool, minimumIntervalMs: 60_000 });
  lane = new Lane(fixture.databaseUrl);
  await waitFor(() => lane.connect().then(() => true), { what: 'the lane is connected' });
});
afterAll(async () => {
  await lane?.close();
  await fixture?.close();
});

const KEYS = Array.from({ length: 64 }, (_, place) => `k${place}`);
const MEASUREMENTS = Object.fromEntries(KEYS.map((key) => [key, { minimum: 10 }]));

async function itemsOf(monitors: readonly SeedMonitor[], value?: number): Promise<BeatItem[]> {
  const measurements = value === undefined ? undefined : Object.fromEntries(KEYS.map((key) => [key, value]));
  const entries = await Promise.all(monitors.map(({ address }) => directory.load(address)));
  return entries.flatMap((entry) =>
    entry ? [{ entry, beat: { kind: 'success' as const, measurements } }] : [],
  );
}

const write = (items: readonly BeatItem[]): Promise<BatchResult> =>
  lane.write((connection, of) => runBeatTransaction(connection, items, { ...of, directory }));

it.each([
  ['opens', 1],
  ['ends', 20],
])('a batch %s some hundred incidents at most; the beats of others are in it', async (_, value) => {
  const ruled = await seedMonitors(fixture.pool, fixture.project, 24, {
    configuration: { measurements: MEASUREMENTS },
  });
  const others = await seedMonitors(fixture.pool, fixture.project, 5);
  if (value === 20) for (const monitor of ruled) await write(await itemsOf([monitor], 1));
  let items = [...(await itemsOf(ruled, value)), ...(await itemsOf(others))];
  let batches = 0;
  while (items.length > 0) {
    const results = await write(items);
    batches += 1;
    const answered = results.filter((result) => typeof result === 'object');
    if (batches === 1) expect(results.slice(-5).every((result) => typeof result === 'object')).toBe(true);
    expect(answered.length).toBeGreaterThan(0);
    // 64 incidents for each of them.
    expect(answered.length - (batches === 1 ? 5 : 0)).toBeLessThanOrEqual(7);
    items = items.filter((_item, place) => results[place] === 'deferred');
  }
  expect(batches).toBeLessThanOrEqual(8);
  for (const monitor of ruled) {
    const states = (await incidentsOf(fixture.pool, monitor)).map(({ state }) => state);
    expect(states).toEqual(KEYS.map(() => (value === 20 ? 'recovered' : 'open')));
  }
});

it('beats of others, with rules and without, overtake those of one organization that take long', async () => {
  const rule = { minimum: 10, maximum: 20, maximumAbsoluteDelta: 1, maximumPercentageDelta: 1 };
  const heavy = await seedMonitors(fixture.pool, fixture.project, 1_200, {
    configuration: { measurements: Object.fromEntries(KEYS.map((key) => [key, rule])) },
  });
  const project = await seedProject(fixture.pool);
  const [plain, ruled] = [
    await seedMonitors(fixture.pool, project, 1),
    await seedMonitors(fixture.pool, project, 1, {
      configuration: { measurements: { rows: { minimum: 1 } } },
    }),
  ];
  const first = await itemsOf(heavy, 15);
  const others = [...(await itemsOf(plain)), ...(await itemsOf(ruled, 15))];
  const batcher = new Batcher({ directory, lanes: [lane], patienceMs: 200_000 });
  let answered = 0;
  const submit = async (item: BeatItem) => {
    expect(await batcher.submit(item)).toMatchObject({ answer: { sequence: 1 } });
    answered += 1;
    return answered;
  };
  const heavies = first.map(submit);
  const places = await Promise.all(others.map(submit));
  // A batch has 512 beats, of which it judges 62 such ones.
  expect(Math.max(...places)).toBeLessThan(400);
  expect(Math.max(...(await Promise.all(heavies)))).toBe(1_202);
});
