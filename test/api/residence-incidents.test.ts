// Incidents and deliveries of a jurisdiction with a database of its own: found by their ids, listed with all others.
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { makeMonitor } from './monitor-fixture.ts';

let api: ResidenceFixture;
beforeAll(async () => {
  api = await openResidenceFixture();
});
afterAll(() => api.close());
beforeEach(() => api.restore());

async function open(jurisdiction: 'eu' | 'us' | 'fedramp') {
  const monitor = await makeMonitor(api, { jurisdiction });
  const incidentId = await monitor.fail();
  const params = { incidentId };
  const { body } = await api.manage.expectSuccess('listIncidentDeliveries', { params });
  return { incidentId, deliveryId: body.items[0]?.deliveryId ?? '' };
}

it('an incident is read and acted on in its database, and lists have those of all, newest first', async () => {
  const opened = [await open('us'), await open('eu'), await open('us'), await open('eu')];
  const newestFirst = opened.map(({ incidentId }) => incidentId).toReversed();
  for (const limit of [1, 3]) {
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const { body } = await api.manage.expectSuccess('listIncidents', { query: { limit, cursor } });
      found.push(...body.items.map(({ incidentId }) => incidentId));
      cursor = body.nextCursor;
    } while (cursor !== undefined);
    expect(found).toEqual(newestFirst);
  }
  for (const { incidentId } of opened) {
    const params = { incidentId };
    const { body } = await api.manage.expectSuccess('acknowledgeIncident', {
      params,
      body: { note: 'seen' },
    });
    expect(body.acknowledgedAt).toBeDefined();
    const { body: timeline } = await api.manage.expectSuccess('getIncidentTimeline', { params });
    expect(timeline.items.map(({ type }) => type)).toContain('acknowledged');
  }
});

it('a delivery is read and sent again in its database', async () => {
  for (const jurisdiction of ['us', 'eu'] as const) {
    const { deliveryId, incidentId } = await open(jurisdiction);
    const params = { deliveryId };
    expect((await api.manage.expectSuccess('getDelivery', { params })).body.incidentId).toBe(incidentId);
    const { body: again } = await api.manage.expectSuccess('redeliver', { params });
    const query = { incidentId };
    const { body: listed } = await api.manage.expectSuccess('listDeliveries', { query });
    expect(listed.items.map((item) => item.deliveryId)).toEqual([again.deliveryId, deliveryId]);
  }
});

it('the list of deliveries has those of one jurisdiction, of two in one database too, and no test of an endpoint', async () => {
  const { body: made } = await api.manage.expectSuccess('createCallback', {
    body: { alias: 'tested', url: 'http://127.0.0.1:9/' },
  });
  const params = { endpointId: made.endpoint.id };
  await api.manage.expectSuccess('testCallback', { params });
  const opened = { us: await open('us'), eu: await open('eu'), fedramp: await open('fedramp') };
  const idsOf = async (query: { jurisdiction?: 'us' | 'eu' | 'fedramp' }) => {
    const { body: listed } = await api.manage.expectSuccess('listDeliveries', { query });
    return listed.items.map(({ deliveryId }) => deliveryId);
  };
  const all = Object.values(opened).map(({ deliveryId }) => deliveryId);
  expect(await idsOf({})).toEqual(expect.arrayContaining(all));
  for (const jurisdiction of ['us', 'eu', 'fedramp'] as const) {
    const { deliveryId } = opened[jurisdiction];
    const found = await idsOf({ jurisdiction });
    expect(found.filter((id) => all.includes(id))).toEqual([deliveryId]);
    for (const id of found) {
      const { body: delivery } = await api.manage.expectSuccess('getDelivery', {
        params: { deliveryId: id },
      });
      expect(delivery.event).not.toBe('callback.test');
    }
  }
});

it('incidents and deliveries of one database are served while the other is away', async () => {
  const [here, there] = [await open('us'), await open('eu')];
  await api.proxies.eu.refuse();
  for (const [{ incidentId, deliveryId }, status] of [
    [here, 200],
    [there, 503],
  ] as const) {
    expect((await api.manage.call('getIncident', { params: { incidentId } })).status).toBe(status);
    expect((await api.manage.call('getDelivery', { params: { deliveryId } })).status).toBe(status);
  }
});
