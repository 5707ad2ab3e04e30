// A walk through a list whose rows are in several databases returns each row that lasts once, whatever comes and goes in
// each of them (docs/contract/calls.md, docs/contract/tenancy.md).
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { deleteClones, insertClones } from '../support/cloned-rows.ts';
import { type FilledProject, fillProject } from '../support/filled-project.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { clonesOf, type ListId, lostOrRepeated, TABLE_OF, walk } from './listed-rows.ts';

/** Those whose rows may be in all databases. */
const LISTS = [
  'listMonitors',
  'getStatusFeed',
  'listIncidents',
  'listDeliveries',
] as const satisfies readonly ListId[];
type Resident = (typeof TABLE_OF)[(typeof LISTS)[number]];
const LASTING = 600;
const COMING = 30;
const LIMIT = 45;

let api: ResidenceFixture;
let halves: { pool: Pool; filled: FilledProject }[];

beforeAll(async () => {
  api = await openResidenceFixture();
  const { copyDirectory } = api;
  halves = [
    { pool: api.pool, filled: await fillProject(api, { jurisdiction: 'us', copyDirectory }) },
    { pool: api.eu, filled: await fillProject(api, { jurisdiction: 'eu', copyDirectory }) },
  ];
  // Even numbers last.
  const numbers = Array.from({ length: LASTING }, (_, index) => 2 * index + 2);
  for (const table of new Set(LISTS.map((id) => TABLE_OF[id]))) await inHalves(table, numbers, insertClones);
});
afterAll(() => api?.close());

/** Rows of neighboring numbers are in turns in the one and the other database. */
async function inHalves(table: Resident, numbers: readonly number[], work: typeof insertClones) {
  for (const [half, { pool, filled }] of halves.entries())
    for (const clone of clonesOf(filled)[table])
      await work(
        pool,
        clone,
        numbers.filter((n) => Math.floor(n / 2) % 2 === half),
      );
}

it.each(LISTS)('a walk through %s, while rows come and go in both databases', async (id) => {
  const [first] = halves;
  if (!first) throw new Error('There is no database.');
  const walker = { api, filled: first.filled, limit: LIMIT };
  const table = TABLE_OF[id];
  const lasting = await walk(walker, id, () => undefined);
  expect(lasting.length).toBeGreaterThanOrEqual(LASTING);
  expect(new Set(lasting).size).toBe(lasting.length);
  let coming: number[] = [];
  let pages = 0;
  const seen = await walk(walker, id, async (read) => {
    pages += 1;
    await inHalves(table, coming, deleteClones);
    const step = Math.floor(LASTING / COMING);
    coming = Array.from({ length: COMING }, (_, index) => 2 * (index * step + (read % step)) + 1);
    await inHalves(table, coming, insertClones);
  });
  await inHalves(table, coming, deleteClones);
  expect(pages).toBeGreaterThan(10);
  expect(lostOrRepeated(lasting, seen)).toEqual([]);
});
