// An origin has one monitor in all databases that answer (docs/contract/monitors.md, "Origin").
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
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

it('an archived monitor that cannot be restored any more loses it to a new one elsewhere', async () => {
  const origin = newOrigin();
  const { body: holder } = await create('us', origin);
  await calls.changeLifecycle(holder.monitorId, 'archive');
  await calls.letRestoreWindowPass(holder.monitorId);
  const { body } = await create('eu', origin);
  expect(await holdersOf(origin)).toEqual([body.monitorId]);
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
