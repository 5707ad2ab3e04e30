// The organization's default endpoint: one in all projects, who may set it, and what a repeated call gets.
// Holds: setDefaultCallback.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

const URL_OF_RECEIVER = 'http://127.0.0.1:9/hook';
let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const newAlias = () => `a-${randomUUID()}`;
const create = () => api.manage.call('createCallback', { body: { alias: newAlias(), url: URL_OF_RECEIVER } });

describe("the organization's default", () => {
  it('an organization has one default endpoint, in any project, and the endpoint shows it', async () => {
    const made = [await create(), await create()].map((answer) => answer.body.endpoint.id);
    const [first = '', second = ''] = made;
    const read = async () => {
      const records = made.map((endpointId) =>
        api.read.expectSuccess('getCallback', { params: { endpointId } }),
      );
      return (await Promise.all(records)).map((record) => record.body.isOrganizationDefault);
    };
    const set = (endpointId: string | null) =>
      api.owner.expectSuccess('setDefaultCallback', { body: { endpointId } });
    expect((await set(first)).body).toEqual({ endpointId: first });
    expect(await read()).toEqual([true, false]);
    await set(second);
    expect(await read()).toEqual([false, true]);

    const { body: project } = await api.owner.expectSuccess('createProject', {
      body: { name: randomUUID() },
    });
    const sibling = api.owner.as(api.tokens.owner, project.projectId);
    const monitor = await sibling.expectSuccess('createMonitor', { body: { name: 'of the sibling' } });
    const params = { monitorId: monitor.body.monitorId };
    const bound = await sibling.expectSuccess('getMonitorBinding', { params });
    expect(bound.body.target).toEqual({ endpointId: second, kind: 'webhook' });
    // An endpoint can be named in its own project only.
    const notHere = await sibling.call('setDefaultCallback', { body: { endpointId: second } });
    expect(notHere.problem?.status).toBe(404);
    expect((await set(null)).body).toEqual({ endpointId: null });
    const cleared = await sibling.expectSuccess('getMonitorBinding', { params });
    expect(cleared.body.unavailableReason).toBe('no_organization_default');

    await set(first);
    const endpointId = first;
    await api.manage.expectSuccess('deleteCallback', {
      params: { endpointId },
      ifMatch: '"callback-endpoint-1"',
    });
    const removed = await sibling.expectSuccess('getMonitorBinding', { params });
    expect(removed.body.unavailableReason).toBe('endpoint_removed');
    await set(null);
  });

  it('a change of the default that expects another default changes nothing and is a 412', async () => {
    const [first, second] = [await create(), await create()].map((answer) => answer.body.endpoint.id);
    const { body: project } = await api.owner.expectSuccess('createProject', {
      body: { name: randomUUID() },
    });
    const sibling = api.owner.as(api.tokens.owner, project.projectId);
    const set = async (endpointId: string | null | undefined, expected?: string, client = api.owner) => {
      const body = { endpointId, expectedEndpointId: expected };
      return (await client.call('setDefaultCallback', { body })).status;
    };
    const isDefault = async (endpointId = '') =>
      (await api.read.expectSuccess('getCallback', { params: { endpointId } })).body.isOrganizationDefault;
    const stale = { endpointId: first, expectedEndpointId: first };
    const { problem } = await api.owner.call('setDefaultCallback', { body: stale });
    expect(problem).toMatchObject({ status: 412, code: 'service.precondition_failed' });
    expect(problem?.remediation).toMatchObject([{ code: 'read_again', documentation: '/docs#the-examples' }]);
    expect(await set(second)).toBe(200);
    expect([await set(null, first), await set(first, first)]).toEqual([412, 412]);
    // An endpoint of that id in another project is another one.
    expect(await set(null, second, sibling)).toBe(412);
    expect([await isDefault(first), await isDefault(second)]).toEqual([false, true]);
    expect([await set(first, second), await set(null, first)]).toEqual([200, 200]);
    expect([await isDefault(first), await isDefault(second)]).toEqual([false, false]);
    expect(await set(null, first)).toBe(412);
  });

  it('only an owner and the operator set or clear the default, and others are told so', async () => {
    const { body, etag } = await create();
    const endpointId = body.endpoint.id;
    for (const client of [api.manage, api.member, api.read, api.viewer]) {
      for (const wanted of [endpointId, null]) {
        const { problem } = await client.call('setDefaultCallback', { body: { endpointId: wanted } });
        expect(problem).toMatchObject({ status: 403, code: 'service.permission_denied' });
        expect(problem?.detail).toContain('This needs a session of an owner, or the operator.');
      }
    }
    for (const client of [api.owner, api.operator]) {
      await client.expectSuccess('setDefaultCallback', { body: { endpointId } });
      const record = await api.read.expectSuccess('getCallback', { params: { endpointId } });
      expect(record.body).toMatchObject({ isOrganizationDefault: true, generation: 1 });
      expect(record.etag).toBe(etag);
      await client.expectSuccess('setDefaultCallback', { body: { endpointId: null } });
    }
  });

  it('a repeated call for the default gets the recorded answer', async () => {
    const { body } = await create();
    const idempotencyKey = randomUUID();
    const request = { body: { endpointId: body.endpoint.id }, idempotencyKey };
    const first = await api.owner.expectSuccess('setDefaultCallback', request);
    await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId: null } });
    const again = await api.owner.expectSuccess('setDefaultCallback', request);
    expect(again.body).toEqual(first.body);
    const params = { endpointId: body.endpoint.id };
    const record = await api.read.expectSuccess('getCallback', { params });
    expect(record.body.isOrganizationDefault).toBe(false);
  });
});
