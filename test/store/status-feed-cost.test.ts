// How many rows the status feed reads: of a project with very many monitors, and of what others change.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Feed } from '../../src/service/monitors/status-feed.ts';
import { haveChanged } from '../../src/store/monitors/feed-poll.ts';
import { touchLive } from '../../src/store/monitors/live.ts';
import { recordChanges } from '../../src/store/monitors/live-changes.ts';
import { readFeedPage } from '../../src/store/monitors/status-feed.ts';
import type { Database, Pool } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { FeedReader } from '../support/feed-reader.ts';
import { rowsReadBy } from '../support/pages.ts';
import { type SeedProject, seedProject } from '../support/seed.ts';

const STRETCH = 20_000;
const COUNT = 2 * STRETCH + 5_000;
/** Rows of all tables for a monitor on a page, at most. */
const EACH = 10;
let fixture: ProjectFixture;
let pool: Pool;
let project: SeedProject;
/** Of many projects. */
let organization: { organizationId: string };
/** In the order of the feed. */
let keys: string[];

beforeAll(async () => {
  fixture = await openProjectFixture();
  ({ pool, project } = fixture);
  await pool.query(
    `with m as (
       insert into monitors (project_id, monitor_key, monitor_id, name, name_key, publish_address)
       select $1, gen_random_uuid(), n::text, n::text, n::text, gen_random_uuid() from generate_series(1, $2::integer) n
       returning project_id, monitor_key)
     insert into monitor_live (project_id, monitor_key, sweep_bucket, configuration_version, changed_xid)
     select project_id, monitor_key, 0, 1, '3' from m`,
    [project.projectId, COUNT],
  );
  await seedOtherProjects();
  const { rows } = await pool.query(
    'select monitor_key from monitor_live where project_id = $1 order by monitor_key',
    [project.projectId],
  );
  keys = rows.map((row) => row.monitor_key);
});
afterAll(() => fixture?.close());
afterEach(async () => {
  await pool.query('truncate live_changes');
  await keepChanges();
});

/** Of one more organization: each has more monitors than a page, and all of them more than a stretch. */
async function seedOtherProjects(): Promise<void> {
  const first = await seedProject(pool);
  organization = { organizationId: first.organizationId };
  await pool.query(
    `with p as (
       insert into projects (project_id, organization_id, name, name_key)
       select gen_random_uuid(), $1, 'p' || n, 'p' || n from generate_series(1, 20) n
       returning project_id),
     m as (
       insert into monitors (project_id, monitor_key, monitor_id, name, name_key, publish_address)
       select project_id, gen_random_uuid(), n::text, n::text, n::text, gen_random_uuid() from p, generate_series(1, 2000) n
       returning project_id, monitor_key)
     insert into monitor_live (project_id, monitor_key, sweep_bucket, configuration_version, changed_xid)
     select project_id, monitor_key, 0, 1, '3' from m`,
    [organization.organizationId],
  );
}

const refAt = (index: number) => ({ projectId: project.projectId, monitorKey: keys[index] ?? '' });
const now = async (scope = project) => (await readFeedPage(pool, { scope, limit: 1 })).snapshot;
/** Above every snapshot from before, whatever other suites have open on the server. Some of those after are below it too. */
const forgetChanges = () =>
  pool.query(
    'update live_changes_floor set floor_xid = (pg_current_xact_id()::text::bigint + 1)::text::xid8',
  );
const keepChanges = () =>
  pool.query(`update live_changes_floor set floor_xid = '0', next_xid = '0', deleted_xid = '0'`);
/** As other projects write them, in one transaction. */
const recordOthers = (records: number) =>
  pool.query(
    `insert into live_changes (project_hashes, monitor_keys)
     select array[n], array[gen_random_uuid()] from generate_series(1, $1::integer) n`,
    [records],
  );
const rowsOf = (name: string, work: (db: Database) => Promise<unknown>) => rowsReadBy(pool, name, work);

describe.each(['before statistics', 'with statistics'])('%s', (when) => {
  beforeAll(async () => {
    if (when === 'with statistics') await pool.query('vacuum analyze');
  });

  it.each([1, 200])('a page of %s far down the listing reads no more than the first one', async (limit) => {
    const pageAfter = (after?: ReturnType<typeof refAt>) =>
      rowsOf('feed-listing', (db) => readFeedPage(db, { scope: project, limit, after }));
    const first = await pageAfter();
    expect(first).toBeGreaterThan(0);
    expect(first).toBeLessThan(EACH * (limit + 51));
    expect(await pageAfter(refAt(COUNT - 1_000))).toBeLessThanOrEqual(first + EACH);
  });

  it('a page of many projects reads no more of the listing than it shows, and one stretch without records', async () => {
    const listing = (db: Database) => readFeedPage(db, { scope: organization, limit: 50 });
    expect(await rowsOf('feed-listing', listing)).toBeLessThan(EACH * (50 + 51));
    const { snapshot: since } = await readFeedPage(pool, { scope: organization, limit: 1 });
    await forgetChanges();
    const old = (db: Database) => readFeedPage(db, { scope: organization, since, limit: 50 });
    expect(await rowsOf('feed-old-changes', old)).toBeLessThan(STRETCH + 2_000 + EACH * 51);
  });

  it('a page without records reads one stretch of the live rows', async () => {
    const since = await now();
    await touchLive(pool, refAt(COUNT - 1));
    await forgetChanges();
    const query = { scope: project, since, limit: 200 };
    const most = STRETCH + EACH * 201;
    expect(await rowsOf('feed-old-changes', (db) => readFeedPage(db, query))).toBeLessThan(most);
    const later = { ...query, after: refAt(STRETCH) };
    expect(await rowsOf('feed-old-changes', (db) => readFeedPage(db, later))).toBeLessThan(most);
  });

  it('a full page without records reads no further than its last change', async () => {
    for (const scope of [project, { organizationId: project.organizationId }]) {
      const since = await now();
      await pool.query('update monitor_live set changed_xid = pg_current_xact_id() where project_id = $1', [
        project.projectId,
      ]);
      await forgetChanges();
      const page = (db: Database) => readFeedPage(db, { scope, since, limit: 50 });
      expect(await rowsOf('feed-old-changes', page)).toBeLessThan(EACH * 101);
    }
  });

  it('a page of changes reads no more live rows than it shows, however many have changed', async () => {
    const since = await now();
    await pool.query(
      `with changed as (
         update monitor_live set changed_xid = pg_current_xact_id() where monitor_key = any ($1)
         returning project_id, monitor_key)
       ${recordChanges('changed')}`,
      [keys.slice(0, 10_000)],
    );
    const query = { scope: project, since, limit: 200 };
    expect(await rowsOf('feed-changes', (db) => readFeedPage(db, query))).toBeLessThan(EACH * 201);
  });

  it('neither a page nor a held call reads the records of earlier transactions while another one runs', async () => {
    await recordOthers(STRETCH);
    const tx = await pool.connect();
    await tx.query('begin');
    await touchLive(tx, refAt(0));
    await touchLive(pool, refAt(1));
    const since = await now();
    const page = (db: Database) => readFeedPage(db, { scope: project, since, limit: 50 });
    const rows = [
      await rowsOf('feed-changes', page),
      await rowsOf('have-changed', (db) => haveChanged(db, [{ scope: project, since }])),
    ];
    await tx.query('rollback');
    tx.release();
    expect(since.running.length).toBeGreaterThan(0);
    expect(Math.max(...rows)).toBeLessThan(50);
  });
});

it('an old cursor comes to each change in pages, some of them empty, and then to the records', async () => {
  const reader = new FeedReader(pool, project);
  await reader.drain({ limit: COUNT });
  const changed = [3, 4, COUNT - 2].map(refAt);
  for (const ref of changed) await touchLive(pool, ref);
  await forgetChanges();
  const pages: Feed[] = [];
  do pages.push(await reader.read());
  while (pages.at(-1)?.next.listing);
  expect(pages.map(({ items }) => items.length)).toEqual([2, 0, 1]);
  await keepChanges();
  const last = await reader.read();
  expect([last.items, last.next.listing]).toEqual([[], undefined]);
  const shown = pages.flatMap(({ items }) => items.map(({ monitor }) => monitor.monitorKey));
  expect(shown).toEqual(changed.map(({ monitorKey }) => monitorKey));
});

it('a cursor of another history begins again without a search of the live rows for it', async () => {
  const reader = new FeedReader(pool, project);
  await reader.drain({ limit: COUNT });
  const [form, , snapshot] = (reader.cursor ?? '').split('.');
  const cursor = [form, '0'.repeat(16), snapshot].join('.');
  await forgetChanges();
  const read = (db: Database) => new FeedReader(db, project, cursor).read({ limit: 50 });
  await expect(rowsOf('feed-old-changes', read)).rejects.toThrow('No statement');
  expect(await rowsOf('feed-listing', read)).toBeGreaterThan(0);
});

it('the poll for held calls reads no live row: past its bound and below the floor, pages find out what is new', async () => {
  const other = await seedProject(pool);
  const subjects = [
    { scope: project, since: await now() },
    { scope: other, since: await now(other) },
  ];
  const poll = (db: Database) => haveChanged(db, subjects);
  const changed = async () => (await poll(pool)).changed;
  await recordOthers(19_000);
  expect(await changed()).toEqual([false, false]);
  await touchLive(pool, refAt(7));
  expect(await changed()).toEqual([true, false]);
  await recordOthers(1_001);
  expect(await changed()).toEqual([true, true]);
  // Its own bound, and no more.
  expect(await rowsOf('have-changed', poll)).toBeLessThan(20_100);
  await forgetChanges();
  expect(await changed()).toEqual([true, true]);
  expect(await rowsOf('have-changed', poll)).toBeLessThan(50);
});

it('the poll for thousands of held calls reads each record once', async () => {
  const since = await now();
  await recordOthers(5_000);
  const { organizationId } = project;
  const scopes = [project, { organizationId }, await seedProject(pool)];
  const subjects = Array.from({ length: 3_000 }, (_, index) => ({
    scope: scopes[index % 3] ?? project,
    since,
  }));
  const poll = (db: Database) => haveChanged(db, subjects);
  expect(await rowsOf('have-changed', poll)).toBeLessThan(5_100);
  expect((await poll(pool)).changed).not.toContain(true);
  await touchLive(pool, refAt(1));
  expect((await poll(pool)).changed).toEqual(subjects.map((_, index) => index % 3 < 2));
});
