// What a page of the list of monitors costs, in a large project.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { listMonitors } from '../../src/store/monitors/monitor-list.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { pagesOf } from '../support/pages.ts';
import { seedMonitors } from '../support/seed.ts';

const LIMIT = 50;
let fixture: ProjectFixture;
let ids: string[];

beforeAll(async () => {
  fixture = await openProjectFixture();
  const seeded = await seedMonitors(fixture.pool, fixture.project, 10_000);
  ids = seeded.map(({ monitorId }) => monitorId).sort();
  await fixture.pool.query('vacuum analyze');
});
afterAll(() => fixture?.close());

function pageAfter(monitorId: string | undefined) {
  const after = monitorId && { nameKey: monitorId, monitorId, jurisdiction: 'unrestricted' as const };
  return { limit: LIMIT, after: after || undefined };
}

it('a page far down the list reads no more than the first one', async () => {
  const { pool, project } = fixture;
  const blocksOf = (page: ReturnType<typeof pageAfter>) =>
    pagesOf(pool, (db) => listMonitors(db, project.projectId, {}, page));
  const first = await blocksOf(pageAfter(undefined));
  expect(first).toBeLessThan(500);
  // A block of an index more or less: the page may begin or end in another one.
  expect(Math.abs((await blocksOf(pageAfter(ids[9_000]))) - first)).toBeLessThanOrEqual(10);
});

it.each(['the first page', 'a later page'])('%s is not planned anew for each call', async (which) => {
  const { pool, project } = fixture;
  const client = await pool.connect();
  for (let call = 0; call < 20; call += 1) {
    const page = pageAfter(which === 'the first page' ? undefined : ids[call * 400]);
    await listMonitors(client, project.projectId, {}, page);
  }
  const { rows } = await client.query<{ planned: number }>(
    `select custom_plans as planned from pg_prepared_statements where name like 'list-monitors-%'`,
  );
  client.release(true); // its statements are those of this test alone
  // Postgres tries five plans for the values of a call before it keeps the one for all values.
  expect(rows).toEqual([{ planned: 5 }]);
});
