// Limits of a plan count what all databases of an organization have.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { reportSlots } from '../../src/store/directory/reservations.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { type SentStatement, statementsOf } from '../support/statements.ts';
import { waitFor } from '../support/wait-for.ts';
import { newOrigin, originCalls, shown } from './origin-fixture.ts';

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

it('a creation that the plan refuses takes the origin from no monitor of the other database', async () => {
  const { rows } = await fixture.pool.query('select monitor_id from monitors limit 1');
  const params = { monitorId: rows[0].monitor_id };
  const origin = newOrigin();
  const { changeLifecycle, letRestoreWindowPass, setOrigin } = originCalls(fixture);
  await setOrigin(params.monitorId, origin);
  await changeLifecycle(params.monitorId, 'archive');
  await letRestoreWindowPass(params.monitorId);
  expect((await create('us')).status).toBe(201);
  const body = { name: 'Job', intervalSeconds: 300, jurisdiction: 'eu' as const, origin };
  expect((await fixture.operator.call('createMonitor', { body })).status).toBe(403);
  const { body: holder } = await fixture.operator.expectSuccess('getMonitor', { params });
  expect(holder.origin).toMatchObject(shown(origin));
});

it('creations that are refused at once share the reports of a place', async () => {
  const CALLS = 12;
  const holder = await fixture.eu.connect();
  await holder.query('begin; lock table used_reservations');
  const sent = await statementsOf(async (soFar) => {
    const answers = statusesOf(Array.from({ length: CALLS }, () => create('eu')));
    await waitFor(async () => hasRefused(soFar, CALLS), { what: 'the plan has refused each call' });
    await holder.query('commit');
    holder.release();
    expect(await answers).toEqual(Array(CALLS).fill(403));
  });
  expect(sent.filter(({ text }) => text.includes(' as news')).length).toBeLessThan(CALLS / 2);
});

/** Whether so many calls have looked for a slot, and are done with it. */
async function hasRefused(sent: readonly SentStatement[], calls: number): Promise<boolean> {
  if (sent.filter(({ text }) => text.includes('as "planId", active_monitors')).length < calls) return false;
  const { rowCount } = await fixture.pool.query(
    `select from pg_stat_activity where application_name = 'beatkeeper-api' and datname = current_database()
       and xact_start is not null`,
  );
  return rowCount === 0;
}
