// An origin has one monitor in all databases that answer (docs/contract/monitors.md, "Origin").
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import { createApiClient } from '../support/api-client.ts';
import { overtake } from '../support/overtaken-call.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { madeAgain, newOrigin, originCalls, shown, type TestOrigin } from './origin-fixture.ts';

let api: ResidenceFixture;
let calls: ReturnType<typeof originCalls>;
beforeAll(async () => {
  api = await openResidenceFixture();
  calls = originCalls(api);
});
afterAll(() => api?.close());
beforeEach(() => api.restore());

const create = (jurisdiction: Jurisdiction, origin?: TestOrigin) =>
  api.operator.call('createMonitor', { body: { name: 'Job', intervalSeconds: 3600, jurisdiction, origin } });

async function holdersOf({ name }: TestOrigin) {
  const query = { origin: `Monitor/payments/${name}` };
  const { body } = await api.operator.expectSuccess('listMonitors', { query });
  return body.items.map(({ monitorId }) => monitorId);
}

/** In each database: as `letRestoreWindowPass` of the other tests. */
const letRestoreWindowPass = (monitorId: string) =>
  Promise.all([api, { ...api, pool: api.eu }].map((one) => originCalls(one).letRestoreWindowPass(monitorId)));

const PAIRS = [
  ['eu', 'us'],
  ['us', 'eu'],
] as const;

it.each(PAIRS)(
  'a creation is refused with the id of the monitor that has it, in %s for one in %s',
  async (there, here) => {
    const origin = newOrigin();
    const { monitorId } = (await create(there, origin)).body;
    for (const stated of [origin, madeAgain(origin)]) {
      const { problem } = await create(here, stated);
      expect(problem).toMatchObject({ status: 409, code: 'service.origin_taken', monitorId });
    }
    await calls.changeLifecycle(monitorId, 'archive');
    expect((await create(here, origin)).problem).toMatchObject({ code: 'service.origin_taken', monitorId });
    expect(await holdersOf(origin)).toEqual([monitorId]);
  },
);

it.each(PAIRS)('set, it is taken from the monitor that has it, in %s by one in %s', async (there, here) => {
  const origin = newOrigin();
  const { body: holder } = await create(there, origin);
  const { body: taker } = await create(here);
  const { body } = await calls.setOrigin(taker.monitorId, madeAgain(origin));
  expect(body.origin).toMatchObject(shown(origin));
  expect(await holdersOf(origin)).toEqual([taker.monitorId]);
  const lost = await calls.read(holder.monitorId);
  expect([lost.origin, lost.configurationVersion]).toEqual([undefined, 2]);
});

it('a call on a monitor that does not exist takes it from none', async () => {
  const origin = newOrigin();
  const { body: holder } = await create('eu', origin);
  const request = { params: { monitorId: 'none' }, query: { jurisdiction: 'us' }, body: { origin } };
  expect((await api.operator.call('setMonitorOrigin', request)).status).toBe(404);
  expect(await holdersOf(origin)).toEqual([holder.monitorId]);
});

it.each(PAIRS)(
  'an archived monitor that cannot be restored any more loses it to a new one, in %s to one in %s',
  async (there, here) => {
    const origin = newOrigin();
    const { body: holder } = await create(there, origin);
    await calls.changeLifecycle(holder.monitorId, 'archive');
    await letRestoreWindowPass(holder.monitorId);
    const { body } = await create(here, origin);
    expect(await holdersOf(origin)).toEqual([body.monitorId]);
  },
);

it.each(PAIRS)('a creation that is refused takes it from none, in %s by one in %s', async (there, here) => {
  const origin = newOrigin();
  const { body: holder } = await create(there, origin);
  await calls.changeLifecycle(holder.monitorId, 'archive');
  await letRestoreWindowPass(holder.monitorId);
  const { body: namesake } = await create(here);
  const body = { name: 'Job', intervalSeconds: 3600, jurisdiction: here, origin };
  const again = { body: { ...body, monitorId: namesake.monitorId } };
  expect((await api.operator.call('createMonitor', again)).problem?.code).toBe('service.conflict');
  expect(await holdersOf(origin)).toEqual([holder.monitorId]);
});

it.each(['refuses', 'hangs'])(
  'while one database %s, a monitor of another one is made, and both have it until it is set again',
  async (how) => {
    const origin = newOrigin();
    const { body: holder } = await create('eu', origin);
    if (how === 'refuses') await api.proxies.eu.refuse();
    else api.proxies.eu.blackHole();
    const { status, body } = await create('us', madeAgain(origin));
    expect(status).toBe(201);
    await api.restore();
    expect((await holdersOf(origin)).sort()).toEqual([holder.monitorId, body.monitorId].sort());
    await calls.setOrigin(body.monitorId, madeAgain(origin));
    expect(await holdersOf(origin)).toEqual([body.monitorId]);
  },
);

it.each(PAIRS)(
  'a creation is answered though the release of its origin fails, in %s for one in %s, and the next call releases it',
  async (there, here) => {
    const origin = newOrigin();
    const { body: holder } = await create(there, origin);
    await calls.changeLifecycle(holder.monitorId, 'archive');
    await letRestoreWindowPass(holder.monitorId);
    const pool = there === 'eu' ? api.eu : api.pool;
    await pool.query(`
      create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
      create trigger refuse before update on monitors for each row when (new.monitor_id = '${holder.monitorId}')
        execute function refuse()`);
    const body = { name: 'Job', intervalSeconds: 3600, jurisdiction: here, origin };
    const request = { body, idempotencyKey: randomUUID() };
    const answers = [
      await api.operator.call('createMonitor', request),
      await api.operator.call('createMonitor', request),
    ];
    const { monitorId } = answers[0]?.body ?? {};
    expect(answers.map(({ status, body: made }) => [status, made?.monitorId])).toEqual([
      [201, monitorId],
      [200, monitorId],
    ]);
    expect(new Set(await holdersOf(origin))).toEqual(new Set([holder.monitorId, monitorId]));
    await pool.query('drop trigger refuse on monitors; drop function refuse');
    await calls.setOrigin(monitorId ?? '', origin);
    expect(await holdersOf(origin)).toEqual([monitorId]);
  },
);

it('the duplicate of a creation is answered though a monitor in another database has its origin since', async () => {
  const origin = newOrigin();
  const { body: taker } = await create('eu');
  const proxy = await TcpProxy.start(api.databaseUrl);
  const { url } = await api.startReplica({ databaseUrl: proxy.url });
  const client = createApiClient({ url, token: api.tokens.operator, project: api.projectName });
  const body = { name: 'Job', intervalSeconds: 3600, jurisdiction: 'us', origin };
  const request = { body, idempotencyKey: randomUUID() };
  let monitorId: string | undefined;
  const duplicate = await overtake({ client, proxy, id: 'createMonitor', request }, async () => {
    const made = await api.operator.expectSuccess('createMonitor', request);
    monitorId = made.body.monitorId;
    await calls.setOrigin(taker.monitorId, madeAgain(origin));
  });
  expect(duplicate).toMatchObject({ status: 200, body: { monitorId } });
  expect(await holdersOf(origin)).toEqual([taker.monitorId]);
  await proxy.close();
});
