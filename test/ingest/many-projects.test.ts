// Beats of many projects at once. On a distributed server (npm run test:distributed) the projects are in several shards.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Batcher } from '../../src/ingest/batcher.ts';
import { ExcuseWriter } from '../../src/ingest/excuse-writer.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { OpenBeats } from '../../src/ingest/open-beats.ts';
import { isDistributed } from '../../src/store/postgres/engine.ts';
import { readShards } from '../../src/store/postgres/shards.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { type SeedMonitor, seedMonitor, seedProject } from '../support/seed.ts';
import { liveOf } from '../support/stored-rows.ts';

const PROJECTS = 12;

let fixture: DatabaseFixture;
let monitors: SeedMonitor[];

beforeAll(async () => {
  fixture = await openDatabaseFixture();
});
afterAll(() => fixture?.close());

async function seed(live: Record<string, unknown> = {}): Promise<void> {
  monitors = [];
  for (let index = 0; index < PROJECTS; index += 1) {
    const project = await seedProject(fixture.pool);
    monitors.push(await seedMonitor(fixture.pool, project, { live }));
  }
}

it.each([
  ['plain beats', undefined],
  ['beats with a message', 'a message'],
])('%s of many projects are stored, each batch in one shard', async (_, message) => {
  await seed();
  const directory = new MonitorDirectory({ db: fixture.pool, minimumIntervalMs: 60_000 });
  const lanes = Array.from({ length: 4 }, () => new Lane(fixture.databaseUrl));
  const failures: unknown[] = [];
  const batcher = new Batcher({ lanes, directory, onError: (error) => failures.push(error) });
  for (const expected of [1, 2]) {
    const answers = await Promise.all(
      monitors.map(async ({ address }) => {
        const entry = await directory.load(address);
        if (!entry) throw new Error('the address was not found');
        return await batcher.submit({ entry, beat: { kind: 'success', message } });
      }),
    );
    for (const answer of answers) expect(answer).toMatchObject({ answer: { sequence: expected } });
  }
  expect(failures).toEqual([]);
  await batcher.close();
  const shards = await readShards(
    fixture.pool,
    monitors.map(({ projectId }) => projectId),
  );
  expect(new Set(shards.values()).size > 1).toBe(isDistributed());
  const { rows } = await fixture.pool.query(
    'select count(*)::integer as count from observations where message is not distinct from $1',
    [message],
  );
  expect(rows).toEqual([{ count: 2 * PROJECTS }]);
});

it('excuses of many projects are written, each once', async () => {
  const beatMs = Date.now() - 30_000;
  await seed({ anchor_ms: beatMs, last_beat_ms: beatMs, deadline_ms: beatMs + 120_000 });
  const openBeats = new OpenBeats();
  const failures: unknown[] = [];
  const writer = new ExcuseWriter({
    openBeats,
    lane: new Lane(fixture.databaseUrl),
    onError: (error) => failures.push(error),
  });
  for (const { address } of monitors) openBeats.refuse(openBeats.begin(address));
  expect(await writer.close()).toBe(0);
  expect(failures).toEqual([]);
  for (const monitor of monitors)
    expect(await liveOf(fixture.pool, monitor)).toMatchObject({ excused_beats: 1 });
});
