// The status feed finds what has changed by live_changes, and by the live rows where live_changes is no longer complete.
// Both must show the same.
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { runPlainBeats } from '../../src/ingest/plain-beats.ts';
import { haveChanged } from '../../src/store/monitors/feed-poll.ts';
import { lockLive, type MonitorRef, touchLive, updateLive } from '../../src/store/monitors/live.ts';
import { deleteOldChanges } from '../../src/store/monitors/live-changes.ts';
import { writeReport } from '../../src/store/monitors/monitor-origins.ts';
import { type FeedScope, readFeedPage, type Snapshot } from '../../src/store/monitors/status-feed.ts';
import { isDistributed } from '../../src/store/postgres/engine.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { sweepLiveChanges } from '../../src/sweeper/upkeep/sweep-live-changes.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedMonitor, seedMonitors, seedProject } from '../support/seed.ts';
import { makeParts } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

const fixtures: ProjectFixture[] = [];
let pool: Pool;
let scope: FeedScope;
let monitors: SeedMonitor[];

beforeEach(async () => {
  const fixture = await openProjectFixture();
  fixtures.push(fixture);
  pool = fixture.pool;
  scope = fixture.project;
  monitors = await seedMonitors(pool, fixture.project, 5);
});
afterAll(() => Promise.all(fixtures.map((fixture) => fixture.close())));

const read = (since?: Snapshot, more = {}) => readFeedPage(pool, { scope, since, limit: 1_000, ...more });
const now = async () => (await read()).snapshot;
const changedSince = async (since: Snapshot) =>
  (await read(since)).items.map(({ monitor }) => monitor.monitorKey).sort();
const keysOf = (some: readonly { monitorKey: string }[]) => some.map(({ monitorKey }) => monitorKey).sort();

/** As if the job that deletes old changes ran a minute later. */
async function retire(): Promise<void> {
  await pool.query("update live_changes_floor set next_at = next_at - interval '2 minutes'");
  await sweepLiveChanges({ pool, metrics: makeParts().metrics });
}

/** Transactions of other suites on the same server hold the floor back while they are open. */
const retireAll = () =>
  waitFor(
    async () => {
      await retire();
      return (await countRows()) === 0;
    },
    { what: 'the changes are deleted' },
  );

const countRows = async () =>
  (await pool.query('select count(*)::integer as count from live_changes')).rows[0].count;

describe('who changes a live row', () => {
  const [one, two] = [0, 3];
  const writers: [string, () => Promise<unknown>][] = [
    [
      'a batch of plain beats',
      async () => {
        const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: 60_000 });
        const entries = await Promise.all(pick(one, two).map(({ address }) => directory.load(address)));
        const items = entries.flatMap((entry) =>
          entry ? [{ entry, beat: { kind: 'success' as const } }] : [],
        );
        const lane = { laneId: '00000000-0000-4000-8000-000000000001', batch: 2 };
        await runPlainBeats(pool, items, lane);
      },
    ],
    [
      'an update of live states',
      () =>
        inTransaction(pool, async (tx) => {
          const { rows } = await lockLive(tx, pick(one, two));
          await updateLive(tx, rows);
        }),
    ],
    ['a touch', () => Promise.all(pick(one, two).map((ref) => touchLive(pool, ref)))],
    [
      'a report of orphans',
      async () => {
        const orphaned = pick(one, two).map(({ monitorId }) => monitorId);
        await pool.query("update monitors set origin_kind = 'kubernetes' where monitor_id = any ($1)", [
          orphaned,
        ]);
        await writeReport(pool, monitors, { orphaned, seen: [] }, Date.now());
      },
    ],
  ];

  it.each(writers)(
    '%s is found by its record, and by its stamp when the record is gone',
    async (_, write) => {
      const since = await now();
      await write();
      expect(await changedSince(since)).toEqual(keysOf(pick(one, two)));
      expect((await haveChanged(pool, [{ scope, since }])).changed).toEqual([true]);
      await retireAll();
      expect(await changedSince(since)).toEqual(keysOf(pick(one, two)));
      expect((await haveChanged(pool, [{ scope, since }])).changed).toEqual([true]);
    },
  );

  const pick = (...indexes: number[]) => indexes.map((index) => monitors[index] as SeedMonitor);
});

describe('deletion of old changes', () => {
  it('changes are kept for a minute, and are gone after the next one', async () => {
    // The database may be a copy of one that was made minutes ago.
    await pool.query('update live_changes_floor set next_at = clock_timestamp()');
    await touchLive(pool, monitors[0] as SeedMonitor);
    await deleteOldChanges(pool, 100);
    expect(await countRows()).toBe(1);
    await retire();
    expect(await countRows()).toBe(1);
    await retireAll();
  });

  it('a change that commits after several deletions is shown to cursors from before and from after them', async () => {
    const before = await now();
    const tx = await pool.connect();
    await tx.query('begin');
    await touchLive(tx, monitors[1] as SeedMonitor);
    for (let round = 0; round < 3; round += 1) await retire();
    const between = await now();
    await tx.query('commit');
    tx.release();
    for (const since of [before, between]) {
      expect(await changedSince(since)).toEqual(keysOf(monitors.slice(1, 2)));
    }
    expect(await changedSince(await now())).toEqual([]);
  });

  it('in a dump from a cluster with higher transaction ids no change is skipped, before the next deletion and after', async () => {
    await pool.query(`update live_changes_floor set floor_xid = '9000000000000', next_xid = '9000000000001'`);
    const since = await now();
    await touchLive(pool, monitors[2] as SeedMonitor);
    for (let round = 0; round < 3; round += 1) {
      expect(await changedSince(since)).toEqual(keysOf(monitors.slice(2, 3)));
      await retire();
    }
    const later = await now();
    await touchLive(pool, monitors[3] as SeedMonitor);
    expect(await changedSince(later)).toEqual(keysOf(monitors.slice(3, 4)));
  });

  it('a deletion in pieces leaves nothing below the floor', async () => {
    await recordOthers(25);
    await retire();
    await waitFor(
      async () => {
        await pool.query("update live_changes_floor set next_at = next_at - interval '2 minutes'");
        while ((await deleteOldChanges(pool, 10)) > 0);
        return (await countRows()) === 0;
      },
      { what: 'the changes are deleted' },
    );
  });

  it('two deletions at once do no harm', async () => {
    const since = await now();
    for (const monitor of monitors) await touchLive(pool, monitor);
    await Promise.all([retire(), retire(), retire()]);
    expect(await changedSince(since)).toEqual(keysOf(monitors));
  });
});

/** A column that only Citus has, and its value. */
const shardKey = (value: string) => (isDistributed() ? ['shard_key, ', `${value}::uuid, `] : ['', '']);

/** Records of other projects, each of a transaction of its own. */
async function recordOthers(count: number): Promise<void> {
  const [column, value] = shardKey('gen_random_uuid()');
  await pool.query(`do $$ begin for i in 1..${count} loop
    insert into live_changes (${column}project_hashes, monitor_keys) values (${value}array[i], array[gen_random_uuid()]);
    commit; end loop; end $$`);
}

describe('reading', () => {
  it('after more records of other projects than a page reads, its live rows answer', async () => {
    const since = await now();
    await recordOthers(5_100);
    expect(await changedSince(since)).toEqual([]);
    expect((await haveChanged(pool, [{ scope, since }])).changed).toEqual([false]);
    await touchLive(pool, monitors[4] as SeedMonitor);
    expect(await changedSince(since)).toEqual(keysOf(monitors.slice(4)));
    expect((await haveChanged(pool, [{ scope, since }])).changed).toEqual([true]);
  });

  it('a transaction that stays open makes no call answer early, and its own change is shown when it ends', async () => {
    const tx = await pool.connect();
    await tx.query('begin');
    await touchLive(tx, monitors[0] as SeedMonitor);
    await recordOthers(1_100);
    const since = await now();
    expect(since.running.length).toBeGreaterThan(0);
    expect((await haveChanged(pool, [{ scope, since }])).changed).toEqual([false]);
    await touchLive(pool, monitors[1] as SeedMonitor);
    const later = await now();
    expect(await changedSince(since)).toEqual(keysOf(monitors.slice(1, 2)));
    expect((await haveChanged(pool, [{ scope, since: later }])).changed).toEqual([false]);
    await tx.query('commit');
    tx.release();
    expect(await changedSince(later)).toEqual(keysOf(monitors.slice(0, 1)));
    expect((await haveChanged(pool, [{ scope, since: later }])).changed).toEqual([true]);
  });

  it('more changes than a record holds come in pages, each monitor once', async () => {
    const many = await seedMonitors(pool, monitors[0] as SeedMonitor, 300);
    const since = await now();
    await inTransaction(pool, async (tx) => updateLive(tx, (await lockLive(tx, many)).rows));
    for (const { monitorKey, projectId } of many.slice(0, 20))
      await touchLive(pool, { monitorKey, projectId });
    expect(await countRows()).toBe(Math.ceil(300 / 64) + 20);
    for (const retires of [false, true]) {
      if (retires) await retireAll();
      const seen: string[] = [];
      for (let after: MonitorRef | undefined; ; ) {
        const { items } = await read(since, { limit: 70, after });
        if (items.length === 0) break;
        seen.push(...items.map(({ monitor }) => monitor.monitorKey));
        after = items.at(-1)?.monitor;
      }
      expect(seen.toSorted()).toEqual(keysOf(many));
    }
  });

  it('a change of one project is none of another, and the changes of both are those of their organization', async () => {
    const { organizationId } = scope;
    const projectId = crypto.randomUUID();
    await pool.query(
      `insert into projects (project_id, organization_id, name, name_key) values ($1, $2, 'other', 'other')`,
      [projectId, organizationId],
    );
    const others = await seedMonitors(pool, { organizationId, projectId }, 2);
    const [foreign] = await seedMonitors(pool, await seedProject(pool), 1);
    const since = await now();
    for (const ref of [monitors[0], others[1], foreign]) await touchLive(pool, ref as SeedMonitor);
    const scopes = [
      scope,
      { organizationId, projectId },
      { organizationId },
      { organizationId: crypto.randomUUID() },
    ];
    const pages = await Promise.all(scopes.map((each) => read(since, { scope: each })));
    const [first, second] = [keysOf(monitors.slice(0, 1)), keysOf(others.slice(1))];
    expect(pages.map(({ items }) => keysOf(items.map(({ monitor }) => monitor)))).toEqual([
      first,
      second,
      [...first, ...second].sort(),
      [],
    ]);
    const { changed, moment } = await haveChanged(
      pool,
      scopes.map((each) => ({ scope: each, since })),
    );
    expect(changed).toEqual([true, true, true, false]);
    expect((await haveChanged(pool, [{ scope, since: moment.snapshot }])).changed).toEqual([false]);
  });

  it('projects of an equal hash are not confused', async () => {
    const since = await now();
    const [column, value] = shardKey('$1');
    await pool.query(
      `insert into live_changes (${column}project_hashes, monitor_keys)
       select ${value}array[uuid_hash($1::uuid)], array[$2::uuid]`,
      [scope.projectId, crypto.randomUUID()],
    );
    expect(await changedSince(since)).toEqual([]);
  });
});
