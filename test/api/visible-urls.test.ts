// What callers see of the URL of an endpoint: its path often is a secret, so who may only read sees the origin.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contractOperations, type OperationId } from '../../src/contract/operations/operations.ts';
import type { ApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

const ORIGIN = 'http://127.0.0.1:9';
let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const newUrl = () => `${ORIGIN}/hook/${randomUUID()}?key=${randomUUID()}`;

describe('the URL of an endpoint', () => {
  it('a reader sees of an endpoint the origin of its URL alone, in the list too', async () => {
    const url = newUrl();
    const made = await api.manage.expectSuccess('createCallback', { body: { alias: randomUUID(), url } });
    const params = { endpointId: made.body.endpoint.id };
    const seen = async (client: ApiClient) => {
      const one = await client.expectSuccess('getCallback', { params });
      const { items } = (await client.expectSuccess('listCallbacks')).body;
      return [one.body.url, items.find(({ id }) => id === params.endpointId)?.url];
    };
    for (const client of [api.read, api.viewer]) expect(await seen(client)).toEqual([ORIGIN, ORIGIN]);
    for (const client of [api.manage, api.member, api.owner, api.operator]) {
      expect(await seen(client)).toEqual([url, url]);
    }
  });

  it('a reader sees the origin alone of an inline URL and of the endpoint that a binding leads to', async () => {
    const url = newUrl();
    const alias = randomUUID();
    await api.manage.expectSuccess('createCallback', { body: { alias, url } });
    const make = async (callback: Record<string, unknown>) => {
      const { body } = await api.manage.expectSuccess('createMonitor', { body: { name: 'Job', callback } });
      return { monitorId: body.monitorId };
    };
    const named = await make({ kind: 'named', alias });
    const inline = await make({ kind: 'inline', url });
    const seen = async (client: ApiClient) => {
      const ofNamed = await client.expectSuccess('getMonitorBinding', { params: named });
      const ofInline = await client.expectSuccess('getMonitorBinding', { params: inline });
      const monitor = await client.expectSuccess('getMonitor', { params: inline });
      const { items } = (await client.expectSuccess('listMonitors')).body;
      return [
        ofNamed.body.target?.url,
        ofInline.body.target?.url,
        ofInline.body.binding,
        monitor.body.callback,
        items.find(({ monitorId }) => monitorId === inline.monitorId)?.callback,
      ];
    };
    const view = (shown: string) => {
      const binding = { kind: 'inline', url: shown };
      return [shown, shown, binding, binding, binding];
    };
    for (const client of [api.read, api.viewer]) expect(await seen(client)).toEqual(view(ORIGIN));
    for (const client of [api.manage, api.owner]) expect(await seen(client)).toEqual(view(url));
  });

  it('no GET shows a reader any part of the path of a URL', async () => {
    const url = newUrl();
    const alias = randomUUID();
    const { body } = await api.manage.expectSuccess('createCallback', { body: { alias, url } });
    const { endpoint } = body;
    const { body: monitor } = await api.manage.expectSuccess('createMonitor', {
      body: { name: 'Job', callback: { kind: 'inline', url } },
    });
    const { pathname } = new URL(monitor.publishUrl ?? '');
    expect((await fetch(`${api.url}${pathname}/fail`)).status).toBe(200);
    await api.manage.expectSuccess('testCallback', { params: { endpointId: endpoint.id } });
    const { body: draft } = await api.manage.expectSuccess('createDraft', {
      params: { monitorId: monitor.monitorId },
      body: { proposal: { measurementKey: 'rows', definition: { minimum: 1 } } },
    });
    const deliveries = (await api.read.expectSuccess('listDeliveries')).body.items;
    const idsOf = {
      monitorId: [monitor.monitorId],
      endpointId: [endpoint.id],
      incidentId: [deliveries.find(({ incidentId }) => incidentId)?.incidentId ?? ''],
      deliveryId: deliveries.map(({ deliveryId }) => deliveryId),
      projectId: [api.projectId],
    };
    expect(idsOf.deliveryId.length).toBeGreaterThan(1);
    const reads = Object.values(contractOperations()).filter(
      ({ method, preset }) => method === 'GET' && preset === 'read',
    );
    const answers: unknown[] = [];
    const range = { since: '2026-01-01T00:00:00Z', until: '2026-01-02T00:00:00Z' };
    for (const { operationId, path } of reads) {
      const query = operationId === 'readSeries' ? range : undefined;
      const name = /\{(\w+)\}/.exec(path)?.[1] as keyof typeof idsOf | undefined;
      const of: Record<string, string> = path.includes('{draftId}') ? { draftId: draft.id } : {};
      for (const params of name ? idsOf[name].map((id) => ({ [name]: id, ...of })) : [{}]) {
        const answer = await api.read.expectSuccess(operationId as OperationId, { params, query });
        answers.push(answer.body);
      }
    }
    expect(answers.length).toBeGreaterThan(15);
    expect(JSON.stringify(answers)).not.toContain('/hook/');
    expect(JSON.stringify(answers)).toContain(ORIGIN);
  });

  it("a reader does not get the recorded answer to a manager's write", async () => {
    const request = { body: { alias: randomUUID(), url: newUrl() }, idempotencyKey: randomUUID() };
    await api.manage.expectSuccess('createCallback', request);
    expect((await api.manage.call('createCallback', request)).body.endpoint.url).toBe(request.body.url);
    expect((await api.read.call('createCallback', request)).problem?.code).toBe('service.permission_denied');
  });

  it("the target of a binding shows neither URL nor alias of another project's endpoint, whoever reads", async () => {
    const { body: sibling } = await api.owner.expectSuccess('createProject', {
      body: { name: `sibling-${randomUUID()}` },
    });
    const made = await api.owner.expectSuccess('createCallback', {
      body: { alias: randomUUID(), url: newUrl() },
    });
    const endpointId = made.body.endpoint.id;
    await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId } });
    const inSibling = (token: string) => api.owner.as(token, sibling.projectId);
    const { body: monitor } = await inSibling(api.tokens.owner).expectSuccess('createMonitor', {
      body: { name: 'Job' },
    });
    const params = { monitorId: monitor.monitorId };
    for (const token of [api.tokens.viewer, api.tokens.member, api.tokens.owner, api.tokens.operator]) {
      const { body } = await inSibling(token).expectSuccess('getMonitorBinding', { params });
      expect(body.target).toEqual({ endpointId, kind: 'webhook' });
    }
    await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId: null } });
  });
});
