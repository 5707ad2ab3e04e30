// Beats of projects whose shard is split after it was looked up (docs/adr/0012). On a Citus cluster alone.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Batcher } from '../../src/ingest/batcher.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { type DirectoryEntry, MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { codeOf, SQLSTATE } from '../../src/store/postgres/database-error.ts';
import { isDistributed } from '../../src/store/postgres/engine.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { seedMonitor } from '../support/seed.ts';
import { seedNeighbours, splitShard } from '../support/split-shard.ts';

describe.runIf(isDistributed())('a shard that is split', () => {
  let fixture: DatabaseFixture;
  let batcher: Batcher | undefined;
  beforeAll(async () => {
    fixture = await openDatabaseFixture();
  });
  afterAll(async () => {
    await batcher?.close();
    await fixture?.close();
  });

  it('beats of two projects whose shard was split since their look-up are stored, also by a lane that is new to it', async () => {
    const { pool, databaseUrl } = fixture;
    const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: 60_000 });
    const neighbours = await seedNeighbours(pool);
    const entries: DirectoryEntry[] = [];
    for (const project of neighbours) {
      const { address } = await seedMonitor(pool, project);
      const entry = await directory.load(address);
      if (entry) entries.push(entry);
    }
    const errors: unknown[] = [];
    const open = () =>
      new Batcher({
        directory,
        lanes: [new Lane(databaseUrl)],
        patienceMs: 60_000,
        onError: (error) => errors.push(error),
      });
    const send = (to: Batcher) =>
      Promise.all(entries.map((entry) => to.submit({ entry, beat: { kind: 'success' } })));
    batcher = open();
    expect(await send(batcher)).toMatchObject([{ answer: { sequence: 1 } }, { answer: { sequence: 1 } }]);
    expect(errors).toEqual([]);
    await splitShard(pool, neighbours[0]);
    expect(await send(batcher)).toMatchObject([{ answer: { sequence: 2 } }, { answer: { sequence: 2 } }]);
    const fresh = open();
    expect(await send(fresh)).toMatchObject([{ answer: { sequence: 3 } }, { answer: { sequence: 3 } }]);
    await fresh.close();
    expect(errors.map(codeOf)).toEqual([SQLSTATE.featureNotSupported, SQLSTATE.featureNotSupported]);
    const shards = await Promise.all(entries.map(({ address }) => directory.peek(address)?.shard));
    expect(new Set(shards).size).toBe(2);
  });
});
