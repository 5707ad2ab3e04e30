// The status feed over several databases: it follows all of them by one cursor, and goes on while one is away
// (docs/contract/monitors.md).
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';

let api: ResidenceFixture;
beforeAll(async () => {
  api = await openResidenceFixture();
});
afterAll(() => api.close());
beforeEach(() => api.restore());

async function make(jurisdiction: Jurisdiction) {
  const monitorId = `m-${randomUUID()}`;
  const body = { monitorId, name: monitorId, intervalSeconds: 3600, jurisdiction };
  await api.manage.expectSuccess('createMonitor', { body });
  return monitorId;
}

async function change(monitorId: string) {
  const params = { monitorId };
  const { etag: ifMatch } = await api.manage.expectSuccess('getMonitor', { params });
  await api.manage.expectSuccess('updateMonitor', {
    params,
    ifMatch,
    body: { patch: { description: randomUUID() } },
  });
}

const read = async (cursor?: string, more: { limit?: number; waitSeconds?: number } = {}) =>
  (await api.manage.expectSuccess('getStatusFeed', { query: { cursor, ...more } })).body;

/** All pages up to the end: what they show, and the cursor. */
async function drain(cursor?: string, limit = 200) {
  const shown: string[] = [];
  for (;;) {
    const { items, nextCursor, hasMore, away } = await read(cursor, { limit });
    expect(items.length).toBeLessThanOrEqual(limit);
    shown.push(...items.map(({ monitorId }) => monitorId));
    cursor = nextCursor;
    if (!hasMore) return { shown: shown.toSorted(), cursor, away };
  }
}

it.each([1, 2, 3, 200])(
  'a listing in pages of %i shows each monitor of all databases once',
  async (limit) => {
    const made = [await make('eu'), await make('us'), await make('eu'), await make('us')];
    const { shown, cursor, away } = await drain(undefined, limit);
    expect(new Set(shown).size).toBe(shown.length);
    expect(shown).toEqual(expect.arrayContaining(made));
    expect(away).toBeUndefined();
    expect((await drain(cursor)).shown).toEqual([]);
  },
);

it.each(['us', 'eu'] as const)('a call that waits hears of a change in %s', async (jurisdiction) => {
  const monitorId = await make(jurisdiction);
  const { cursor } = await drain();
  const held = read(cursor, { waitSeconds: 30 });
  await change(monitorId);
  expect((await held).items.map((item) => item.monitorId)).toEqual([monitorId]);
});

it.each([
  ['eu', 'refuses'],
  ['eu', 'hangs'],
  ['default', 'refuses'],
] as const)(
  'while the database %s %s the feed goes on with the other, and repeats nothing after',
  async (which, how) => {
    const [here, there] = which === 'eu' ? (['us', 'eu'] as const) : (['eu', 'us'] as const);
    const [present, missing] = [await make(here), await make(there)];
    const { cursor } = await drain();
    await change(missing);
    if (how === 'refuses') await api.proxies[which].refuse();
    else api.proxies[which].blackHole();
    await change(present);
    const during = await drain(cursor);
    expect(during.shown).toEqual([present]);
    expect(during.away).toContain(there);
    // A call that waits does so for the others, and comes back to look for the one that is away.
    const waited = await read(during.cursor, { waitSeconds: 1 });
    expect(waited.away).toContain(there);
    await api.restore();
    const after = await drain(waited.nextCursor);
    expect([after.shown, after.away]).toEqual([[missing], undefined]);
  },
);

it('a listing that begins while a database is away shows its monitors once it is back', async () => {
  const missing = await make('eu');
  await api.proxies.eu.refuse();
  const during = await drain();
  expect(during.away).toEqual(['eu']);
  expect(during.shown).not.toContain(missing);
  await api.restore();
  expect((await drain(during.cursor)).shown).toContain(missing);
});

it('a cursor of the time with one database goes on in the default one, and lists the others', async () => {
  const [old, fresh] = [await make('us'), await make('eu')];
  const { cursor = '' } = await drain();
  const former = cursor
    .split('/')
    .find((part) => part.startsWith('default:'))
    ?.slice('default:'.length);
  const { shown } = await drain(former);
  expect(shown).toContain(fresh);
  expect(shown).not.toContain(old);
});

it('a text that is no cursor is refused', async () => {
  for (const cursor of ['f2/eu', 'f2/eu:f1.x', 'f2/eu:f1:f1', 'f3'])
    expect((await api.manage.call('getStatusFeed', { query: { cursor } })).status).toBe(400);
});
