// Who may say which object of the cluster a monitor or an endpoint stands for: the operator alone, within bounds.
// Holds: setMonitorOrigin.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { newOrigin, originCalls } from './origin-fixture.ts';

let api: ApiFixture;
let calls: ReturnType<typeof originCalls>;
beforeAll(async () => {
  api = await openApiFixture();
  calls = originCalls(api);
});
afterAll(async () => {
  await api?.close();
});

const others = () => [api.manage, api.read, api.owner, api.member, api.viewer];
const callback = () => ({ ...newOrigin(), kind: 'Callback' });

describe('an origin', () => {
  it('is refused to everybody but the operator in a creation, and nothing is made', async () => {
    const monitorId = `mon_${randomUUID()}`;
    const alias = randomUUID();
    const refusals = [api.manage, api.owner, api.member].flatMap((client) => [
      client.call('createMonitor', { body: { monitorId, name: 'Job', origin: newOrigin() } }),
      client.call('createCallback', { body: { alias, url: 'http://127.0.0.1:9/', origin: callback() } }),
    ]);
    for (const { problem } of await Promise.all(refusals)) {
      expect(problem).toMatchObject({ status: 403, code: 'service.permission_denied' });
      expect(problem?.detail).toBe('The field origin is for the operator alone: leave it out.');
    }
    expect((await api.read.call('getMonitor', { params: { monitorId } })).status).toBe(404);
  });

  it('is set, taken and released by nobody but the operator', async () => {
    const { monitorId } = await calls.create({ origin: newOrigin() });
    for (const client of others()) {
      for (const origin of [newOrigin(), null]) {
        const set = await client.call('setMonitorOrigin', { params: { monitorId }, body: { origin } });
        expect(set.problem).toMatchObject({ status: 403, code: 'service.permission_denied' });
      }
      const report = await client.call('reportMonitorOrigins', { body: { orphaned: [monitorId] } });
      expect(report.problem).toMatchObject({ status: 403, code: 'service.permission_denied' });
    }
    expect((await calls.read(monitorId)).configurationVersion).toBe(1);
  });

  it('of what the caller may not see is 404', async () => {
    const { monitorId } = await calls.create();
    for (const client of [api.other.manage, api.other.owner]) {
      const body = { origin: null };
      const set = await client.call('setMonitorOrigin', { params: { monitorId }, body });
      expect(set.problem).toMatchObject({ status: 404, code: 'service.not_found' });
    }
    const none = await api.operator.call('setMonitorOrigin', {
      params: { monitorId: 'none' },
      body: { origin: newOrigin() },
    });
    expect(none.problem).toMatchObject({ status: 404 });
  });

  it('cannot be patched', async () => {
    const { monitorId } = await calls.create();
    const { problem } = await api.operator.call('updateMonitor', {
      params: { monitorId },
      body: { patch: { origin: newOrigin() } },
      ifMatch: '"configuration-1"',
    });
    expect(problem?.fieldErrors).toMatchObject([{ path: 'patch.origin', code: 'unknown_field' }]);
    expect(problem?.fieldErrors?.[0]?.message).toContain('PUT /v1/monitors/{monitorId}/origin');
  });

  it.each([
    ['a kind that declares no monitor', { kind: 'Callback' }, 'origin.kind'],
    ['a namespace that no cluster has', { namespace: 'Payments' }, 'origin.namespace'],
    ['a namespace that is too long', { namespace: 'n'.repeat(64) }, 'origin.namespace'],
    ['a name with a slash', { name: 'a/b' }, 'origin.name'],
    ['a name that is too long', { name: 'n'.repeat(254) }, 'origin.name'],
    ['a UID with a line break', { uid: 'a\nb' }, 'origin.uid'],
    ['a UID that is too long', { uid: 'a'.repeat(65) }, 'origin.uid'],
    ['no UID', { uid: undefined }, 'origin.uid'],
    ['a field that it does not have', { orphanedAt: '2026-01-01T00:00:00Z' }, 'origin.orphanedAt'],
  ])('with %s is refused', async (_, part, path) => {
    const { monitorId } = await calls.create();
    const body = { origin: { ...newOrigin(), ...part } };
    const { problem } = await api.operator.call('setMonitorOrigin', { params: { monitorId }, body });
    expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path }] });
  });

  it('may have the greatest lengths, and names that are words of other languages', async () => {
    const name = [...Array(3).fill('n'.repeat(63)), 'n'.repeat(61)].join('.');
    const origin = { ...newOrigin(), namespace: 'null', name, uid: 'u'.repeat(64) };
    const { monitorId } = await calls.create({ origin });
    const { body } = await api.read.expectSuccess('listMonitors', {
      query: { origin: `Monitor/null/${name}` },
    });
    expect(body.items.map((item) => item.monitorId)).toEqual([monitorId]);
  });

  it.each([
    'Orphaned',
    'Monitor/payments',
    'Callback/payments/a',
    'Monitor/payments/a/b',
    'Monitor/Pay/a',
    '',
  ])('is no filter of a list as %j', async (origin) => {
    const { problem } = await api.read.call('listMonitors', { query: { origin } });
    expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'origin' }] });
  });
});
