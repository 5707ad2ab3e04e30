// The status feed of a Citus cluster, read between the commit of the coordinator and that of a machine (docs/adr/0012).
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { haveChanged } from '../../src/store/monitors/feed-poll.ts';
import { readFeedPage, type Snapshot } from '../../src/store/monitors/status-feed.ts';
import { isDistributed } from '../../src/store/postgres/engine.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type HeldCommit, holdCommit } from '../support/held-commit.ts';
import { type SeedMonitor, seedMonitor } from '../support/seed.ts';

describe.runIf(isDistributed())('a change that the coordinator has committed and a machine has not', () => {
  let fixture: ProjectFixture;
  let monitor: SeedMonitor;
  let before: Snapshot;
  let held: HeldCommit;

  const read = (since?: Snapshot) => readFeedPage(fixture.pool, { scope: fixture.project, since, limit: 10 });
  const poll = (since: Snapshot) => haveChanged(fixture.pool, [{ scope: fixture.project, since }]);
  const keysOf = async (since: Snapshot) => (await read(since)).items.map((item) => item.monitor.monitorKey);

  beforeAll(async () => {
    fixture = await openProjectFixture();
  });
  beforeEach(async () => {
    monitor = await seedMonitor(fixture.pool, fixture.project);
    before = (await read()).snapshot;
    held = await holdCommit(fixture.databaseUrl, monitor);
  });
  afterAll(() => fixture?.close());

  it('is shown to a reader whose cursor is of the time in between', async () => {
    const page = await read(before);
    const listing = await read();
    await held.commit();
    expect(page.items).toEqual([]);
    expect(await keysOf(page.snapshot)).toEqual([monitor.monitorKey]);
    expect(await keysOf(listing.snapshot)).toEqual([monitor.monitorKey]);
    expect(await keysOf((await read(page.snapshot)).snapshot)).toEqual([]);
  });

  it('ends the wait of a reader who waits for it', async () => {
    const polled = await poll(before);
    await held.commit();
    expect(polled.changed).toEqual([false]);
    expect((await poll(polled.moment.snapshot)).changed).toEqual([true]);
  });

  it('runs in the moment of each read, and other transactions do not', async () => {
    const { snapshot } = await read(before);
    await held.commit();
    expect(snapshot.running).toContain(held.xid);
    expect(snapshot.xmin).toBe(Math.min(...snapshot.running));
    expect((await read(before)).snapshot.running).not.toContain(held.xid);
  });
});
