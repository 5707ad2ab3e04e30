// The past from which states of rules are built again (docs/contract/rules.md): the newest 200 successes of the last 1,000
// observations, with the measurements that are asked for.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findPastSuccesses } from '../../src/store/beats/past-successes.ts';
import type { Queryable } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { insertBeats, type PastBeat } from '../support/past-beats.ts';
import { type SeedMonitor, seedMonitor } from '../support/seed.ts';

let fixture: ProjectFixture;
beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

const END_MS = Date.now();

/** A monitor with these observations, a second apart up to now. */
async function withPast(beats: readonly Omit<PastBeat, 'atMs'>[]): Promise<SeedMonitor> {
  const monitor = await seedMonitor(fixture.pool, fixture.project);
  const first = END_MS - beats.length * 1000;
  await insertBeats(
    fixture.pool,
    monitor,
    beats.map((beat, index) => ({ ...beat, atMs: first + (index + 1) * 1000 })),
  );
  return monitor;
}

const times = (count: number, beat: Omit<PastBeat, 'atMs'>) => Array.from({ length: count }, () => beat);
const of = ({ projectId, monitorKey }: SeedMonitor, lastSequence: number, read = ['rows']) => ({
  ...{ projectId, monitorKey, lastSequence, read },
});
const find = async (monitor: SeedMonitor, lastSequence: number, read?: string[], sinceMs = 0) =>
  (await findPastSuccesses(fixture.pool, [of(monitor, lastSequence, read)], sinceMs)).get(
    monitor.monitorKey,
  ) ?? [];

it('has successes alone, oldest first, with the keys that are read and the times of their receipt', async () => {
  const monitor = await withPast([
    { measurements: { rows: 1, files: 2, bytes: 3 } },
    { kind: 'fail', measurements: { rows: 4 } },
    { kind: 'log', measurements: { rows: 5 } },
    { measurements: { bytes: 6 } },
    { kind: 'start' },
    {},
    { measurements: { bytes: 7, rows: 8 } },
  ]);
  expect(await find(monitor, 7, ['rows', 'files'])).toEqual([
    { sequence: 1, atMs: END_MS - 6_000, measurements: { rows: 1, files: 2 } },
    { sequence: 4, atMs: END_MS - 3_000, measurements: {} },
    { sequence: 6, atMs: END_MS - 1_000, measurements: {} },
    { sequence: 7, atMs: END_MS, measurements: { rows: 8 } },
  ]);
});

it('has the newest 200, and none after the sequence that counts', async () => {
  const monitor = await withPast(times(300, { measurements: { rows: 1 } }));
  const all = await find(monitor, 300);
  expect([all.length, all[0]?.sequence, all.at(-1)?.sequence]).toEqual([200, 101, 300]);
  const before = await find(monitor, 250);
  expect([before.length, before[0]?.sequence, before.at(-1)?.sequence]).toEqual([200, 51, 250]);
});

it('looks through the last 1,000 observations, whatever they are', async () => {
  const monitor = await withPast([
    ...times(3, { measurements: { rows: 1 } }),
    ...times(998, { kind: 'log' }),
    ...times(1, { measurements: { rows: 2 } }),
  ]);
  expect((await find(monitor, 1002)).map(({ sequence }) => sequence)).toEqual([3, 1002]);
  expect((await find(monitor, 1001)).map(({ sequence }) => sequence)).toEqual([2, 3]);
});

it('has nothing that was received before the days that are kept', async () => {
  const monitor = await withPast(times(10, { measurements: { rows: 1 } }));
  const kept = await find(monitor, 10, undefined, END_MS - 4_000);
  expect(kept.map(({ sequence }) => sequence)).toEqual([6, 7, 8, 9, 10]);
});

it('of many monitors takes one statement, and an entry for each', async () => {
  const [one, other] = [
    await withPast(times(3, { measurements: { rows: 1 } })),
    await withPast(times(2, { measurements: { rows: 1, files: 2 } })),
  ];
  const empty = await seedMonitor(fixture.pool, fixture.project);
  let statements = 0;
  const counting = {
    query: (...statement: Parameters<Queryable['query']>) => {
      statements += 1;
      return fixture.pool.query(...statement);
    },
  } as Queryable;
  const refs = [of(one, 3), of(other, 2, ['files']), of(empty, 0)];
  const found = await findPastSuccesses(counting, refs, 0);
  expect([...found].map(([key, past]) => [key, past.map(({ measurements }) => measurements)])).toEqual([
    [one.monitorKey, [{ rows: 1 }, { rows: 1 }, { rows: 1 }]],
    [other.monitorKey, [{ files: 2 }, { files: 2 }]],
    [empty.monitorKey, []],
  ]);
  expect(statements).toBe(1);
  expect(await findPastSuccesses(counting, [], 0)).toEqual(new Map());
  expect(statements).toBe(1);
});
