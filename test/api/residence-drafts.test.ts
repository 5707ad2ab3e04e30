// Drafts and suggestions of rules on a monitor that a database of its jurisdiction has: they live there, and read there.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { MIN_VALUES } from '../../src/domain/rules/suggest.ts';
import type { ApiFixture } from '../support/api-fixture.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { makeDrafted } from './draft-fixture.ts';

let api: ResidenceFixture;
/** What is written by SQL goes to the database of `eu`. */
let inEu: ApiFixture;
beforeAll(async () => {
  api = await openResidenceFixture();
  inEu = { ...api, pool: api.eu };
});
afterAll(() => api?.close());
beforeEach(() => api.restore());

const makeInEu = (body: object = {}) => makeDrafted(inEu, { jurisdiction: 'eu', ...body });
const countOfDrafts = async () =>
  await Promise.all(
    [api.eu, api.pool].map(
      async (pool) => (await pool.query('select count(*)::integer as count from drafts')).rows[0].count,
    ),
  );

it('a draft is created, listed, replayed, updated and applied in the database of its monitor', async () => {
  const monitor = await makeInEu();
  const { params } = monitor;
  for (const rows of [30, 3, 20]) await monitor.beat({ rows });
  const [before] = await countOfDrafts();
  const [first, second] = [await monitor.create({ minimum: 10 }), await monitor.create({ maximum: 5 })];
  expect([first.jurisdiction, first.history.observationCount]).toEqual(['eu', 3]);
  expect(await countOfDrafts()).toEqual([before + 2, 0]);

  const { body: listed } = await api.read.expectSuccess('listDrafts', { params });
  expect(listed.items).toEqual([second, first]);
  const replayOf = async (draftId: string, span: object = {}) =>
    (await api.read.expectSuccess('replayDraft', { params, body: { draftId, ...span } })).body;
  const replayed = await replayOf(first.id);
  expect(replayed.window).toMatchObject({ observationCount: 3, fromSequence: 1, throughSequence: 3 });
  expect(replayed.proposed.incidents).toMatchObject([{ rule: 'minimum', openSequence: 2 }]);
  const since = replayed.window.fromAt;
  expect((await replayOf(second.id, { since })).proposed).toMatchObject({ flaggedCount: 2 });

  expect((await monitor.update(first.id, { minimum: 15 })).body).toMatchObject({ version: 2 });
  expect((await monitor.cancel(second.id)).body).toMatchObject({ status: 'canceled' });
  const applied = await monitor.apply(first.id, { expectedDraftVersion: 2 });
  expect(applied.body).toMatchObject({ status: 'applied', appliedConfigurationVersion: 2 });
  const { body: read } = await api.read.expectSuccess('getMonitor', { params });
  expect(read.measurements).toMatchObject({ rows: { minimum: 15 } });
  expect(await monitor.read(first.id)).toEqual(applied.body);
  const { rows } = await api.eu.query(
    `select status from drafts where ${monitor.ofMonitor} order by draft_id`,
  );
  expect(rows).toEqual([{ status: 'applied' }, { status: 'canceled' }]);
});

it('a creation and an apply with one key happen once, also where the answer was lost', async () => {
  const monitor = await makeInEu();
  const { params } = monitor;
  const create = () => {
    const body = { proposal: { measurementKey: 'rows', definition: { minimum: 1 } } };
    return api.manage.expectSuccess('createDraft', { params, body, idempotencyKey: params.monitorId });
  };
  const { body: draft } = await create();
  expect((await create()).body).toEqual(draft);
  const apply = () => {
    const body = {
      draftId: draft.id,
      confirm: true as const,
      expectedDraftVersion: 1,
      expectedConfigurationVersion: 1,
    };
    return api.manage.expectSuccess('applyDraft', { params, body, idempotencyKey: draft.id });
  };
  const { body: applied } = await apply();
  expect((await apply()).body).toEqual(applied);
  const { rows } = await api.eu.query(`select draft_id from drafts where ${monitor.ofMonitor}`);
  expect(rows).toHaveLength(1);
});

it('a suggestion reads the history of that database, and a draft takes it there', async () => {
  const monitor = await makeInEu();
  const { params } = monitor;
  for (let row = 0; row < MIN_VALUES; row += 1) await monitor.beat({ rows: 100 + row });
  const suggestRule = () =>
    api.read.expectSuccess('suggestRule', { params, body: { measurementKey: 'rows' } });
  const { body: suggested } = await suggestRule();
  expect(suggested.values).toMatchObject({ count: MIN_VALUES, smallest: 100, largest: 119 });
  expect((await monitor.create(suggested.definition)).proposal.definition).toEqual(suggested.definition);
});

it('of one id in two databases each monitor has its own drafts', async () => {
  const monitorId = `twin-${randomUUID()}`;
  const params = { monitorId };
  const bodies = ['eu', 'us'].map((jurisdiction) => ({ monitorId, jurisdiction, name: jurisdiction }));
  for (const body of bodies) await api.manage.expectSuccess('createMonitor', { body: body as never });
  const create = (jurisdiction: 'eu' | 'us', minimum: number) => {
    const body = { proposal: { measurementKey: 'rows', definition: { minimum } } };
    return api.manage.expectSuccess('createDraft', { params, query: { jurisdiction }, body });
  };
  const made = { eu: (await create('eu', 1)).body, us: (await create('us', 2)).body };
  expect((await api.read.call('listDrafts', { params })).problem?.code).toBe('service.conflict');
  for (const [jurisdiction, other] of [
    ['eu', 'us'],
    ['us', 'eu'],
  ] as const) {
    const query = { jurisdiction };
    const { body: listed } = await api.read.expectSuccess('listDrafts', { params, query });
    expect(listed.items).toEqual([made[jurisdiction]]);
    const ofOther = { ...params, draftId: made[other].id };
    expect((await api.read.call('getDraft', { params: ofOther, query })).status).toBe(404);
    const body = { draftId: made[other].id };
    expect((await api.manage.call('cancelDraft', { params, query, body })).status).toBe(404);
  }
});

it('while its database is away a call on a draft is 503, a draft elsewhere is read, and the apply works afterwards', async () => {
  const [away, near] = [await makeInEu(), await makeDrafted(api, { jurisdiction: 'us' })];
  const [draft, other] = [await away.create(), await near.create()];
  await api.proxies.eu.refuse();
  api.proxies.eu.reset();
  const unavailable = { status: 503, code: 'service.temporarily_unavailable', jurisdiction: 'eu' };
  const { params } = away;
  const body = { draftId: draft.id };
  expect((await api.read.call('replayDraft', { params, body })).problem).toMatchObject(unavailable);
  expect((await away.apply(draft.id)).problem).toMatchObject(unavailable);
  expect(await near.read(other.id)).toEqual(other);
  await api.restore();
  expect(await away.read(draft.id)).toEqual(draft);
  expect((await away.apply(draft.id)).status).toBe(200);
});
