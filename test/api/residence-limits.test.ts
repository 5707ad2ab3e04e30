// Limits of a plan count what all databases of an organization have.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { reportSlots } from '../../src/store/directory/reservations.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';

const LIMIT = 3;
let fixture: ResidenceFixture;

beforeAll(async () => {
  const plans = { scale: { activeMonitors: LIMIT, callbackEndpoints: 2 } };
  fixture = await openResidenceFixture({ config: { plans } });
});
afterAll(() => fixture?.close());

let count = 0;
const create = (jurisdiction: 'eu' | 'us', callback: object = { kind: 'disabled' }) => {
  count += 1;
  const body = {
    name: `monitor-${count}`,
    monitorId: `m-${count}`,
    intervalSeconds: 300,
    jurisdiction,
    callback,
  };
  return fixture.manage.call('createMonitor', { body: body as never });
};
const statusesOf = async (answers: Promise<{ status: number }>[]) =>
  (await Promise.all(answers)).map(({ status }) => status).sort();
const countIn = async (jurisdiction: 'eu' | 'us') =>
  (await (jurisdiction === 'eu' ? fixture.eu : fixture.pool).query('select from monitors')).rowCount;

it('an organization has as many monitors as its plan allows, however many are made at once in whichever database', async () => {
  const answers = Array.from({ length: 10 }, (_, index) => create(index % 2 === 0 ? 'eu' : 'us'));
  expect(await statusesOf(answers)).toEqual([201, 201, 201, ...Array(7).fill(403)]);
  expect((await countIn('eu')) ?? 0).toBe(LIMIT - ((await countIn('us')) ?? 0));
});

it('a monitor that is deleted makes room for one in the other database', async () => {
  for (const db of [fixture.eu, fixture.pool]) {
    const { rows } = await db.query('select monitor_id, jurisdiction from monitors');
    for (const { monitor_id: monitorId, jurisdiction } of rows) {
      const { etag } = await fixture.manage.expectSuccess('getMonitor', { params: { monitorId } });
      await fixture.manage.expectSuccess('deleteMonitor', {
        params: { monitorId },
        query: { jurisdiction },
        ifMatch: etag,
      });
    }
  }
  await reportSlots(fixture.pool, { jurisdiction: 'eu', pool: fixture.eu });
  expect(await statusesOf([create('us'), create('us'), create('us')])).toEqual([201, 201, 201]);
  expect((await create('eu')).status).toBe(403);
});

it('a call that is refused for another reason keeps no slot', async () => {
  const deleteOne = async () => {
    const { rows } = await fixture.pool.query('select monitor_id from monitors limit 1');
    const params = { monitorId: rows[0].monitor_id };
    const { etag } = await fixture.manage.expectSuccess('getMonitor', { params });
    await fixture.manage.expectSuccess('deleteMonitor', { params, ifMatch: etag });
  };
  await deleteOne();
  expect((await create('eu')).status).toBe(201);
  await deleteOne();
  const { rows } = await fixture.eu.query('select monitor_id from monitors');
  const body = {
    name: 'again',
    monitorId: rows[0].monitor_id,
    intervalSeconds: 300,
    jurisdiction: 'eu' as const,
  };
  for (let call = 0; call < 3; call += 1)
    expect((await fixture.manage.call('createMonitor', { body: body as never })).status).toBe(409);
  expect((await create('eu')).status).toBe(201);
  expect((await create('us')).status).toBe(403);
});
