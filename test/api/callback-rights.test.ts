// Who may do what with callback endpoints.
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

describe('rights', () => {
  it('a credential that may read changes no endpoint', async () => {
    const { body, etag } = await create();
    const params = { endpointId: body.endpoint.id };
    for (const client of [api.read, api.viewer]) {
      expect((await client.call('getCallback', { params })).status).toBe(200);
      expect((await client.call('listCallbacks')).status).toBe(200);
      const refused = [
        await client.call('createCallback', { body: { alias: newAlias(), url: URL_OF_RECEIVER } }),
        await client.call('updateCallback', { params, body: { lifecycle: 'disabled' }, ifMatch: etag }),
        await client.call('rotateSigningSecret', { params, body: {}, ifMatch: etag }),
        await client.call('testCallback', { params }),
        await client.call('deleteCallback', { params, ifMatch: etag }),
        await client.call('setDefaultCallback', { body: { endpointId: null } }),
      ];
      expect(refused.map((answer) => answer.problem?.status)).toEqual([403, 403, 403, 403, 403, 403]);
    }
  });

  it('another organization sees no endpoint of this one', async () => {
    const { body, etag } = await create();
    const params = { endpointId: body.endpoint.id };
    const client = api.other.manage;
    const refused = [
      await client.call('getCallback', { params }),
      await client.call('updateCallback', { params, body: { lifecycle: 'disabled' }, ifMatch: etag }),
      await client.call('rotateSigningSecret', { params, body: {}, ifMatch: etag }),
      await client.call('testCallback', { params }),
      await client.call('deleteCallback', { params, ifMatch: etag }),
      await api.other.owner.call('setDefaultCallback', { body: params }),
    ];
    expect(refused.map((answer) => answer.problem?.code)).toEqual(Array(6).fill('service.not_found'));
    expect((await api.manage.expectSuccess('getCallback', { params })).body).toEqual(body.endpoint);
  });

  it('the endpoint of an inline binding is reached through its monitor only', async () => {
    const monitor = await api.manage.expectSuccess('createMonitor', {
      body: { name: 'inline', callback: { kind: 'inline', url: URL_OF_RECEIVER } },
    });
    const bound = await api.read.expectSuccess('getMonitorBinding', {
      params: { monitorId: monitor.body.monitorId },
    });
    const params = { endpointId: bound.body.target?.endpointId ?? '' };
    expect((await api.manage.call('getCallback', { params })).problem?.status).toBe(404);
    expect((await api.owner.call('setDefaultCallback', { body: params })).problem?.status).toBe(404);
  });
});
