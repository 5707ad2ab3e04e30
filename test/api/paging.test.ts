// Every list of the contract is read by keyset: a walk returns each row that lasts once, whatever comes and goes, and a
// deep page costs what the first one costs (docs/contract/calls.md).
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { placeOf } from '../../src/store/postgres/secret-box.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { deleteClones, hexOf, insertClones } from '../support/cloned-rows.ts';
import { CLOSED_URL, type FilledProject, fillProject, OPERATIONS } from '../support/filled-project.ts';
import { pagesReadOf, statementsOf } from '../support/statements.ts';
import {
  clonesOf,
  type ListId,
  lostOrRepeated,
  readPage,
  TABLE_OF,
  type Table,
  type Walker,
  walk,
} from './listed-rows.ts';

/** Enough for a page 10,000 of one row. */
const LASTING = 10_050;
const LARGEST_PAGE = 200;
const COMING = 100;
/** Rows that last have even numbers, those that come and go odd ones. */
const even = (_: unknown, index: number) => 2 * index + 2;

const LISTS = Object.entries(TABLE_OF) as [ListId, Table][];

let api: ApiFixture;
let filled: FilledProject;
const walker = (): Walker => ({ api, filled, limit: LARGEST_PAGE });
beforeAll(async () => {
  api = await openApiFixture();
  filled = await fillProject(api);
  const { incidentId } = filled.ids;
  await api.manage.expectSuccess('noteIncident', { params: { incidentId }, body: { note: 'One.' } });
  const numbers = Array.from({ length: LASTING }, even);
  for (const table of new Set(Object.values(TABLE_OF))) await insertRows(table, numbers);
  await api.pool.query('vacuum analyze');
});
afterAll(async () => {
  await api?.close();
});

async function insertRows(table: Table, numbers: readonly number[]): Promise<void> {
  for (const clone of clonesOf(filled)[table]) await insertClones(api.pool, clone, numbers);
  if (table === 'callback_endpoints') await sealUrls(numbers);
}

async function deleteRows(table: Table, numbers: readonly number[]): Promise<void> {
  for (const clone of clonesOf(filled)[table]) await deleteClones(api.pool, clone, numbers);
}

/** A sealed URL opens in its own row alone. */
async function sealUrls(numbers: readonly number[]): Promise<void> {
  const ids = numbers.map((n) => `cb_${hexOf(n)}`);
  const boxes = ids.map((id) => api.secrets.seal(CLOSED_URL, placeOf(api.projectId, id, 'url')));
  await api.pool.query(
    `update callback_endpoints e set url_box = v.box from unnest($1::text[], $2::bytea[]) v (id, box)
     where e.project_id = $3 and e.endpoint_id = v.id`,
    [ids, boxes, api.projectId],
  );
}

describe('a list', () => {
  it('every operation that takes a cursor is a list of this test', () => {
    const withCursor = OPERATIONS.filter(({ query }) => query && 'cursor' in query.shape);
    // The types hold those that answer pages.
    const ids = withCursor.filter(({ streams }) => !streams).map(({ operationId }) => operationId);
    expect(ids.sort()).toEqual(Object.keys(TABLE_OF).sort());
  });

  it.each(LISTS)(
    'a walk through %s returns each row that lasts once, while rows come and go',
    async (id, table) => {
      const lasting = await walk(walker(), id, () => undefined);
      expect(lasting.length).toBeGreaterThanOrEqual(LASTING);
      expect(new Set(lasting).size).toBe(lasting.length);
      let coming: number[] = [];
      const seen = await walk(walker(), id, async (read) => {
        await deleteRows(table, coming);
        // All over the list, at other places each time.
        const step = Math.floor(LASTING / COMING);
        coming = Array.from({ length: COMING }, (_, index) => 2 * (index * step + (read % step)) + 1);
        await insertRows(table, coming);
      });
      await deleteRows(table, coming);
      expect(lostOrRepeated(lasting, seen)).toEqual([]);
    },
  );

  // What a page of the feed reads: test/store/status-feed-cost.test.ts.
  const measured = LISTS.filter(([id]) => id !== 'getStatusFeed');
  it.each(measured)(
    'page 10,000 of %s reads as many pages of the database as the first one',
    async (id, table) => {
      let deep: string | undefined;
      await walk(walker(), id, (read, { nextCursor }) => {
        if (read <= 10_000) deep = nextCursor;
      });
      const pagesAt = async (cursor: string | undefined) => {
        const sent = await statementsOf(() => readPage({ ...walker(), limit: 1 }, id, cursor));
        return await pagesReadOf(api.pool, table, sent);
      };
      const first = await pagesAt(undefined);
      expect(first).toBeLessThan(500);
      // A block of an index more or less: the page may begin or end in another one.
      expect((await pagesAt(deep)) - first).toBeLessThanOrEqual(10);
    },
  );
});
