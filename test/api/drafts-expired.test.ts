// How drafts of rules end without a call: they expire, and are deleted (docs/contract/rules.md).
import { afterAll, beforeAll, expect, it } from 'vitest';
import { DRAFT_EXPIRY_MS } from '../../src/domain/draft.ts';
import { expireDrafts } from '../../src/store/monitors/drafts.ts';
import { sweepDrafts } from '../../src/sweeper/upkeep/sweep-drafts.ts';
import { sweepRetention } from '../../src/sweeper/upkeep/sweep-retention.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { makeParts } from '../support/sweeper-fixture.ts';
import { makeDrafted } from './draft-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const DAY_MS = 86_400_000;

it('a draft expires 7 days after its last update, before the sweeper comes and after it', async () => {
  const monitor = await makeDrafted(api);
  const draft = await monitor.create();
  await monitor.age(DRAFT_EXPIRY_MS - DAY_MS);
  expect((await monitor.read(draft.id)).status).toBe('open');
  const { body: updated } = await monitor.update(draft.id, { maximum: 1 });
  expect(Date.parse(updated.updatedAt)).toBeGreaterThanOrEqual(Date.parse(draft.updatedAt));
  await monitor.age(DRAFT_EXPIRY_MS + 1);
  const expired = await monitor.read(draft.id);
  expect(expired.status).toBe('expired');
  expect(Date.parse(expired.closedAt ?? '') - Date.parse(expired.updatedAt)).toBe(DRAFT_EXPIRY_MS);
  const { body: page } = await api.read.expectSuccess('listDrafts', { params: monitor.params });
  expect(page.items).toEqual([expired]);
  const change = { expectedDraftVersion: 2 };
  const answers = [
    await monitor.cancel(draft.id),
    await monitor.update(draft.id, {}, change),
    await monitor.apply(draft.id, change),
  ];
  expect(answers.map(({ problem }) => problem?.code)).toEqual(Array(3).fill('service.draft_closed'));
  const fresh = await monitor.create();
  expect(await sweepDrafts({ pool: api.pool })).toBe('idle');
  expect(await monitor.read(draft.id)).toEqual(expired);
  const { rows } = await api.pool.query(
    `select draft_id, status from drafts where ${monitor.ofMonitor} order by draft_id`,
  );
  expect(rows).toEqual([
    { draft_id: draft.id, status: 'expired' },
    { draft_id: fresh.id, status: 'open' },
  ]);
});

it('is deleted 30 days after it was closed, and an open one stays', async () => {
  const monitor = await makeDrafted(api);
  const [old, recent, open] = [await monitor.create(), await monitor.create(), await monitor.create()];
  for (const draft of [old, recent]) await monitor.cancel(draft.id);
  const age = `update drafts set closed_at = clock_timestamp() - $2 * interval '1 day' where draft_id = $1`;
  await api.pool.query(age, [old.id, 31]);
  await api.pool.query(age, [recent.id, 29]);
  await sweepRetention({ pool: api.pool, slowPool: api.pool, ...makeParts() });
  const { body } = await api.read.expectSuccess('listDrafts', { params: monitor.params });
  expect(body.items.map(({ id }) => id)).toEqual([open.id, recent.id]);
});

it('a sweeper passes over a draft that a call holds, and waits for nothing', async () => {
  const monitor = await makeDrafted(api);
  const [held, free] = [await monitor.create(), await monitor.create()];
  await monitor.age(DRAFT_EXPIRY_MS + 1);
  const [call, sweeper] = [await api.pool.connect(), await api.pool.connect()];
  try {
    // In place of a wait that ends with the test.
    await sweeper.query(`set lock_timeout = '1s'`);
    await call.query('begin');
    const cancel = `update drafts set status = 'canceled', closed_at = clock_timestamp() where draft_id = $1`;
    await call.query(cancel, [held.id]);
    expect(await expireDrafts(sweeper, 10)).toBe(1);
    expect(await statusOf(free.id)).toBe('expired');
    await call.query('commit');
    expect(await expireDrafts(sweeper, 10)).toBe(0);
    expect(await statusOf(held.id)).toBe('canceled');
  } finally {
    call.release(true);
    sweeper.release(true);
  }
});

async function statusOf(draftId: string): Promise<string | undefined> {
  const text = 'select status from drafts where draft_id = $1';
  const { rows } = await api.pool.query<{ status: string }>(text, [draftId]);
  return rows[0]?.status;
}
