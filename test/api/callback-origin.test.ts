// Origins of callback endpoints: which Callback of the cluster an endpoint stands for (docs/contract/callbacks.md).
// Holds: setCallbackOrigin.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const URL_OF_HOOK = 'http://127.0.0.1:9/hook';
const newOrigin = () => ({
  kind: 'Callback' as const,
  namespace: 'payments',
  name: `on-call-${randomUUID()}`,
  uid: randomUUID(),
});
type Origin = ReturnType<typeof newOrigin>;
const madeAgain = (origin: Origin): Origin => ({ ...origin, uid: randomUUID() });
const shown = ({ uid: _, ...origin }: Origin) => origin;

const create = async (body: Record<string, unknown> = {}) => {
  const made = { alias: randomUUID(), url: URL_OF_HOOK, ...body };
  return (await api.operator.expectSuccess('createCallback', { body: made })).body.endpoint;
};
const refusal = async (body: Record<string, unknown>) =>
  (await api.operator.call('createCallback', { body: { alias: randomUUID(), url: URL_OF_HOOK, ...body } }))
    .problem;
const read = async (endpointId: string) =>
  (await api.read.expectSuccess('getCallback', { params: { endpointId } })).body;
const setOrigin = (endpointId: string, origin: object | null) =>
  api.operator.expectSuccess('setCallbackOrigin', { params: { endpointId }, body: { origin } });

describe('an endpoint that is created with an origin', () => {
  it('shows UID and owned fields to nobody but the operator', async () => {
    const origin = { ...newOrigin(), ownedFields: ['alias'] };
    const shown = { kind: origin.kind, namespace: origin.namespace, name: origin.name };
    const endpoint = await create({ origin });
    expect(endpoint.origin).toEqual(origin);
    const { body } = await api.read.expectSuccess('listCallbacks');
    expect(body.items.find(({ id }) => id === endpoint.id)?.origin).toEqual(shown);
    expect(JSON.stringify(body)).not.toContain(origin.uid);
  });

  it('is refused with the id of the endpoint that has the origin, also where that has the alias', async () => {
    const origin = newOrigin();
    const { id: endpointId, alias } = await create({ origin });
    for (const body of [{ origin: madeAgain(origin) }, { origin: madeAgain(origin), alias }]) {
      expect(await refusal(body)).toMatchObject({ status: 409, code: 'service.origin_taken', endpointId });
    }
  });

  it('is refused by its id, and not by its own origin, when the creation is repeated under another key', async () => {
    const body = { endpointId: `cb_${randomUUID()}`, alias: randomUUID(), origin: newOrigin() };
    await create(body);
    expect(await refusal(body)).toMatchObject({
      code: 'service.conflict',
      fieldErrors: [{ path: 'endpointId' }],
    });
  });

  it('gets the origin of an endpoint that was removed', async () => {
    const origin = newOrigin();
    const { id: endpointId } = await create({ origin });
    await api.operator.expectSuccess('deleteCallback', {
      params: { endpointId },
      ifMatch: '"callback-endpoint-1"',
    });
    expect((await create({ origin: madeAgain(origin) })).origin).toMatchObject(shown(origin));
  });

  it('is one of several that are created at the same time, and the others learn its id', async () => {
    const origin = newOrigin();
    const bodies = Array.from({ length: 6 }, () => ({ alias: randomUUID(), url: URL_OF_HOOK, origin }));
    const answers = await Promise.all(bodies.map((body) => api.operator.call('createCallback', { body })));
    const made = answers.filter(({ problem }) => !problem).map(({ body }) => body.endpoint.id);
    expect(made).toHaveLength(1);
    for (const { problem } of answers.filter(({ problem }) => problem)) {
      expect(problem).toMatchObject({ code: 'service.origin_taken', endpointId: made[0] });
    }
  });
});

describe('setting the origin of an endpoint', () => {
  it('is a change of the endpoint, and the secret stays', async () => {
    const endpoint = await create();
    const origin = newOrigin();
    const { body, etag } = await setOrigin(endpoint.id, origin);
    expect(etag).toBe('"callback-endpoint-2"');
    expect([body.origin, body.secret]).toEqual([origin, endpoint.secret]);
    const { body: changes } = await api.read.expectSuccess('listCallbackChanges', {
      params: { endpointId: endpoint.id },
    });
    expect(changes.items).toMatchObject([
      { action: 'update', configurationVersion: 2, actor: { kind: 'operator' } },
      { action: 'create' },
    ]);
  });

  it('again to the same object changes nothing', async () => {
    const origin = { ...newOrigin(), ownedFields: ['alias'] };
    const { id } = await create({ origin });
    expect((await setOrigin(id, origin)).etag).toBe('"callback-endpoint-1"');
    const more = { ...origin, ownedFields: ['alias', 'lifecycle'] };
    expect((await setOrigin(id, more)).etag).toBe('"callback-endpoint-1"');
    const { ownedFields: _, ...again } = madeAgain(more) as typeof more;
    const { body, etag } = await setOrigin(id, again);
    expect(etag).toBe('"callback-endpoint-2"');
    expect(body.origin).toEqual({ ...again, ownedFields: more.ownedFields });
  });

  it('takes it from the endpoint that has it', async () => {
    const origin = newOrigin();
    const holder = await create({ origin });
    const { id } = await create();
    await setOrigin(id, madeAgain(origin));
    expect((await read(id)).origin).toMatchObject(shown(origin));
    expect(await read(holder.id)).toMatchObject({ generation: 2 });
    expect((await read(holder.id)).origin).toBeUndefined();
  });

  it('to null releases the endpoint once', async () => {
    const { id } = await create({ origin: newOrigin() });
    expect((await setOrigin(id, null)).body.origin).toBeUndefined();
    expect((await setOrigin(id, null)).etag).toBe('"callback-endpoint-2"');
  });

  it('at the same time for two endpoints gives it to one of them', async () => {
    const origin = newOrigin();
    await create({ origin });
    const [one, two] = [await create(), await create()];
    for (let round = 0; round < 10; round += 1) {
      await Promise.all([setOrigin(one.id, madeAgain(origin)), setOrigin(two.id, madeAgain(origin))]);
      const holders = [await read(one.id), await read(two.id)].filter((endpoint) => endpoint.origin);
      expect(holders).toHaveLength(1);
    }
  });

  it('of the endpoint of an inline binding, or of none, is 404', async () => {
    const inline = await api.manage.expectSuccess('createMonitor', {
      body: { name: 'Job', callback: { kind: 'inline', url: URL_OF_HOOK } },
    });
    const { monitorId } = inline.body;
    const bound = await api.read.expectSuccess('getMonitorBinding', { params: { monitorId } });
    for (const endpointId of [bound.body.target?.endpointId ?? '', 'none']) {
      const { problem } = await api.operator.call('setCallbackOrigin', {
        params: { endpointId },
        body: { origin: newOrigin() },
      });
      expect(problem).toMatchObject({ status: 404, code: 'service.not_found' });
    }
  });

  it('is refused to everybody but the operator', async () => {
    const { id: endpointId } = await create();
    for (const client of [api.manage, api.read, api.owner, api.member, api.viewer]) {
      const body = { origin: newOrigin() };
      const { problem } = await client.call('setCallbackOrigin', { params: { endpointId }, body });
      expect(problem).toMatchObject({ status: 403, code: 'service.permission_denied' });
    }
  });
});
