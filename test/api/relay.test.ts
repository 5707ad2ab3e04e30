// Endpoints of the relay kinds, and how people connect: on a relay as a phone sees it.
// Holds: connectRelay.
import { createHash, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLog } from '../../src/telemetry/log.ts';
import { createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type Ntfy, openNtfy } from '../support/ntfy.ts';
import { startTokenIssuer, type TokenIssuer } from '../support/token-issuer.ts';

let api: ApiFixture;
let ntfy: Ntfy;
let otherIssuer: TokenIssuer;
const lines: string[] = [];
beforeAll(async () => {
  ntfy = await openNtfy();
  const log = createLog({ role: 'api', level: 'trace' }, { write: (line) => void lines.push(line) });
  const relay = { relayUrl: ntfy.url, relayToken: ntfy.token, relayNotifiers: ['ntfy', 'phones'] };
  api = await openApiFixture({ config: relay, log });
  otherIssuer = await startTokenIssuer();
});
afterAll(async () => {
  await otherIssuer?.close();
  await api?.close();
  await ntfy?.close();
});

const newAlias = () => `a-${randomUUID()}`;
const create = (body: Record<string, unknown>, client = api.manage) =>
  client.call('createCallback', { body: { alias: newAlias(), ...body } });
const createGroup = (notifierId = 'ntfy', client = api.manage) =>
  create({ kind: 'relay_group', relayGroup: { notifierId } }, client);
const createPerson = (actorId: string, notifierId = 'ntfy', client = api.manage) =>
  create({ kind: 'relay_subscriber', relay: { actorId, notifierId } }, client);

/** docs/contract/callbacks.md, "Connecting". */
const actorIdOf = (issuer: string, subject: string) =>
  `sha256:${createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('hex')}`;

/** Somebody who has just signed in for the first time, in the first organization. */
async function newPerson({
  role = 'viewer',
  org = 'acme',
  subject = `ada-${randomUUID()}`,
  issuer = api.issuer,
  url = api.url,
} = {}) {
  const token = await issuer.sign({ subject, claims: { role, org } });
  const client = createApiClient({ url, token });
  const connect = async (notifierId = 'ntfy') =>
    (await client.expectSuccess('connectRelay', { body: { notifierId } })).body;
  return { subject, actorId: actorIdOf(issuer.url, subject), client, connect };
}

async function sendTest(endpointId: string) {
  const { body } = await api.manage.expectSuccess('testCallback', { params: { endpointId }, body: {} });
  return body;
}

describe('a connection', () => {
  it('a person gets an actorId, an address of their own and that of the organization, and no project is needed', async () => {
    const ada = await newPerson();
    const made = await ada.client.call('connectRelay', { body: { notifierId: 'ntfy' } });
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      actorId: ada.actorId,
      notifierId: 'ntfy',
      contractVersion: 'ntfy-1',
      topicUrl: expect.stringMatching(/\/bk_[A-Za-z0-9_-]{43}$/),
      groupTopicUrl: expect.stringMatching(/\/bk_[A-Za-z0-9_-]{43}$/),
      replayed: false,
    });
    expect(made.body.topicUrl?.startsWith(`${ntfy.url}/`)).toBe(true);
    expect(made.body.topicUrl).not.toBe(made.body.groupTopicUrl);
  });

  it('everyone has an address of their own, each notifier another one, and the organization one for each notifier', async () => {
    const [ada, bob] = [await newPerson(), await newPerson()];
    const all = [
      await ada.connect(),
      await ada.connect('phones'),
      await bob.connect(),
      await bob.connect('phones'),
    ];
    expect(new Set(all.map(({ topicUrl }) => topicUrl)).size).toBe(4);
    const groups = all.map(({ groupTopicUrl }) => groupTopicUrl);
    expect(groups).toEqual([groups[0], groups[1], groups[0], groups[1]]);
    expect(groups[0]).not.toBe(groups[1]);
    const stranger = await newPerson({ org: 'umbrella' });
    expect(groups).not.toContain((await stranger.connect()).groupTopicUrl);
  });

  it('a repeated call shows no address and connects nobody again', async () => {
    const ada = await newPerson();
    const request = { body: { notifierId: 'ntfy' }, idempotencyKey: randomUUID() };
    const first = await ada.client.expectSuccess('connectRelay', request);
    const again = await ada.client.call('connectRelay', request);
    expect(again.status).toBe(200);
    const { actorId, notifierId, contractVersion } = first.body;
    expect(again.body).toEqual({ actorId, notifierId, contractVersion, replayed: true });
    const endpoint = (await createPerson(actorId)).body.endpoint;
    expect(await sendTest(endpoint.id)).toMatchObject({ delivered: true });
    expect(await ntfy.messagesAt(first.body.topicUrl)).toHaveLength(1);
  });

  it('the key of one person is no key of another: the other one learns nothing, and is not connected by it', async () => {
    const [ada, bob] = [await newPerson(), await newPerson()];
    const request = { body: { notifierId: 'ntfy' }, idempotencyKey: randomUUID() };
    await ada.client.expectSuccess('connectRelay', request);
    const { problem } = await bob.client.call('connectRelay', request);
    expect(problem).toMatchObject({ status: 409, code: 'service.idempotency_conflict' });
    for (const text of [ada.actorId, ada.subject]) expect(JSON.stringify(problem)).not.toContain(text);
  });

  it('connecting again keeps the actorId; alerts of the endpoints that name it go to the new address alone', async () => {
    const ada = await newPerson();
    const first = await ada.connect();
    const { id } = (await createPerson(first.actorId)).body.endpoint;
    await sendTest(id);
    const second = await ada.connect();
    expect(second.actorId).toBe(first.actorId);
    expect(second.topicUrl).not.toBe(first.topicUrl);
    expect(second.groupTopicUrl).toBe(first.groupTopicUrl);
    await sendTest(id);
    expect(await ntfy.messagesAt(first.topicUrl)).toHaveLength(1);
    expect(await ntfy.messagesAt(second.topicUrl)).toHaveLength(1);
  });

  it('of many connections of a person at once the address of one counts', async () => {
    const ada = await newPerson();
    const made = await Promise.all(Array.from({ length: 5 }, () => ada.connect()));
    const { id } = (await createPerson(ada.actorId)).body.endpoint;
    await sendTest(id);
    const arrived = await Promise.all(made.map(({ topicUrl }) => ntfy.messagesAt(topicUrl)));
    expect(arrived.map((messages) => messages.length).sort()).toEqual([0, 0, 0, 0, 1]);
    expect(new Set(made.map(({ groupTopicUrl }) => groupTopicUrl)).size).toBe(1);
  });

  it('one subject of two issuers is two people: neither takes the address of the other, nor learns of it', async () => {
    const subject = 'x'.repeat(200);
    const trusted = otherIssuer.trusted({ organization: 'acme', roles: { [subject]: 'viewer' } });
    const { url } = await api.startReplica({ issuers: [trusted] });
    const [ada, bob] = [await newPerson({ subject }), await newPerson({ subject, issuer: otherIssuer, url })];
    const request = { body: { notifierId: 'ntfy' }, idempotencyKey: randomUUID() };
    const { actorId, topicUrl } = (await ada.client.expectSuccess('connectRelay', request)).body;
    expect((await bob.client.call('connectRelay', request)).problem).toMatchObject({ status: 409 });
    const second = await bob.connect();
    expect(second.actorId).not.toBe(actorId);
    const { id } = (await createPerson(actorId)).body.endpoint;
    await sendTest(id);
    expect(await ntfy.messagesAt(topicUrl)).toHaveLength(1);
    expect(await ntfy.messagesAt(second.topicUrl)).toEqual([]);
  });

  it('a credential and the operator are refused: they are no persons', async () => {
    for (const client of [api.manage, api.read, api.operator]) {
      const { problem } = await client.call('connectRelay', { body: { notifierId: 'ntfy' } });
      expect(problem).toMatchObject({ status: 403, code: 'service.permission_denied' });
    }
  });

  it('a notifier that the installation does not have is refused with its path', async () => {
    const unknown = { code: 'unknown_notifier', message: expect.stringContaining('ntfy, phones') };
    const connected = await api.viewer.call('connectRelay', { body: { notifierId: 'pager' } });
    expect(connected.problem).toMatchObject({ status: 400, code: 'service.validation_failed' });
    expect(connected.problem?.fieldErrors).toMatchObject([{ ...unknown, path: 'notifierId' }]);
    const group = await createGroup('pager');
    expect(group.problem?.fieldErrors).toMatchObject([{ ...unknown, path: 'relayGroup.notifierId' }]);
    const person = await createPerson('ada', 'pager');
    expect(person.problem?.fieldErrors).toMatchObject([{ ...unknown, path: 'relay.notifierId' }]);
  });
});

describe('an endpoint of a relay kind', () => {
  it('an endpoint for a person names the person, and has neither an address nor a secret', async () => {
    const ada = await newPerson();
    await ada.connect();
    const made = await createPerson(ada.actorId);
    expect(made.status).toBe(201);
    expect(made.body).not.toHaveProperty('signingSecret');
    const { endpoint } = made.body;
    expect(endpoint).toMatchObject({
      kind: 'relay_subscriber',
      relay: { actorId: ada.actorId, notifierId: 'ntfy', contractVersion: 'ntfy-1' },
      lifecycle: 'active',
      generation: 1,
    });
    for (const field of ['url', 'secret', 'relayGroup']) expect(endpoint).not.toHaveProperty(field);
    const read = await api.read.expectSuccess('getCallback', { params: { endpointId: endpoint.id } });
    expect(read.body).toEqual(endpoint);
    const changes = await api.read.expectSuccess('listCallbackChanges', {
      params: { endpointId: endpoint.id },
    });
    expect(changes.body.items).toMatchObject([
      { action: 'create', relay: { to: { actorId: ada.actorId, notifierId: 'ntfy' } } },
    ]);
  });

  it('an endpoint for the organization reaches everyone who has connected, before it or after', async () => {
    const early = await (await newPerson()).connect('phones');
    const made = await createGroup('phones');
    expect(made.body.endpoint).toMatchObject({
      relayGroup: { notifierId: 'phones', contractVersion: 'ntfy-1' },
    });
    const late = await (await newPerson()).connect('phones');
    expect(late.groupTopicUrl).toBe(early.groupTopicUrl);
    const before = await ntfy.messagesAt(early.groupTopicUrl);
    const { deliveryId } = await sendTest(made.body.endpoint.id);
    expect((await ntfy.messagesAt(early.groupTopicUrl)).length).toBe(before.length + 1);
    expect(await ntfy.messagesAt(early.topicUrl)).toEqual([]);
    const { body } = await api.read.expectSuccess('getDelivery', { params: { deliveryId } });
    expect(body).toMatchObject({ state: 'delivered', attemptCount: 1, attempts: [{ statusCode: 200 }] });
  });

  it('a person who is not connected, to this notifier or in this organization, is refused in the same words', async () => {
    const [ada, stranger] = [await newPerson(), await newPerson({ org: 'umbrella', role: 'owner' })];
    await ada.connect('phones');
    await stranger.connect('ntfy');
    const refused = [
      await createPerson(ada.actorId),
      await createPerson(stranger.actorId),
      await createPerson(`nobody-${randomUUID()}`),
      await createPerson(ada.actorId, 'phones', api.other.manage),
    ];
    for (const { problem } of refused) {
      expect(problem).toMatchObject({ status: 409, code: 'service.conflict', retryable: false });
      expect(problem?.fieldErrors).toMatchObject([{ code: 'not_connected', path: 'relay.actorId' }]);
    }
    expect(new Set(refused.slice(0, 3).map(({ problem }) => problem?.detail)).size).toBe(1);
  });

  it('two organizations have their own topics for one notifier: alerts of one reach nobody in the other', async () => {
    const stranger = await (await newPerson({ org: 'umbrella' })).connect();
    const { id } = (await createGroup()).body.endpoint;
    await sendTest(id);
    expect(await ntfy.messagesAt(stranger.groupTopicUrl)).toEqual([]);
  });

  it('another person takes over by a patch, with a record of both; the same one again changes nothing', async () => {
    const [ada, bob] = [await newPerson(), await newPerson()];
    const addresses = [await ada.connect(), await bob.connect()].map(({ topicUrl }) => topicUrl);
    const made = await createPerson(ada.actorId);
    const params = { endpointId: made.body.endpoint.id };
    const patch = (actorId: string, ifMatch: string) =>
      api.manage.call('updateCallback', {
        params,
        body: { relay: { actorId, notifierId: 'ntfy' } },
        ifMatch,
      });
    const moved = await patch(bob.actorId, made.etag);
    expect(moved.body).toMatchObject({ relay: { actorId: bob.actorId }, generation: 2 });
    expect((await patch(bob.actorId, moved.etag)).body.generation).toBe(2);
    expect((await patch('nobody', moved.etag)).problem).toMatchObject({
      status: 409,
      code: 'service.conflict',
    });
    await sendTest(params.endpointId);
    expect(await Promise.all(addresses.map((url) => ntfy.messagesAt(url)))).toMatchObject([[], [{}]]);
    const { body } = await api.read.expectSuccess('listCallbackChanges', { params });
    expect(body.items[0]).toMatchObject({
      action: 'update',
      relay: { from: { actorId: ada.actorId }, to: { actorId: bob.actorId, notifierId: 'ntfy' } },
    });
  });

  it.each([{ url: 'https://receiver.example/' }, { relay: { actorId: 'a', notifierId: 'ntfy' } }])(
    'a patch of a group that states another destination is refused: %j',
    async (body) => {
      const made = await createGroup();
      const request = { params: { endpointId: made.body.endpoint.id }, body, ifMatch: made.etag };
      const { problem } = await api.manage.call('updateCallback', request);
      expect(problem?.fieldErrors).toMatchObject([
        {
          code: 'destination_mismatch',
          path: Object.keys(body)[0],
          message: expect.stringContaining('relayGroup'),
        },
      ]);
    },
  );

  it('it has no secret to rotate', async () => {
    const made = await createGroup();
    const request = { params: { endpointId: made.body.endpoint.id }, body: {}, ifMatch: made.etag };
    expect((await api.manage.call('rotateSigningSecret', request)).problem).toMatchObject({ status: 409 });
  });

  it('it may be the default of the organization, and the target of a monitor shows no address', async () => {
    const { endpoint } = (await createGroup()).body;
    await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId: endpoint.id } });
    const monitorId = `m-${randomUUID()}`;
    await api.manage.expectSuccess('createMonitor', {
      body: { monitorId, name: 'Nightly', intervalSeconds: 60, graceSeconds: 60 },
    });
    const { body } = await api.manage.expectSuccess('getMonitorBinding', { params: { monitorId } });
    expect(body.target).toEqual({ endpointId: endpoint.id, alias: endpoint.alias, kind: 'relay_group' });
  });

  it('a removed endpoint gets nothing more, and its alias is free', async () => {
    const made = await createGroup();
    const { id, alias } = made.body.endpoint;
    const params = { endpointId: id };
    await api.manage.expectSuccess('deleteCallback', { params, ifMatch: made.etag });
    expect((await api.manage.call('testCallback', { params, body: {} })).status).toBe(404);
    expect((await create({ alias, kind: 'relay_group', relayGroup: { notifierId: 'ntfy' } })).status).toBe(
      201,
    );
    const { rows } = await api.pool.query(
      'select relay_topic_id from callback_endpoints where endpoint_id = $1',
      [id],
    );
    expect(rows).toEqual([{ relay_topic_id: null }]);
  });
});

describe('an installation without a relay', () => {
  it('relay kinds and connections are refused, and what exists is kept and fails', async () => {
    const made = await createGroup();
    const replica = await api.startReplica({ relayUrl: undefined });
    const at = (token: string) => createApiClient({ url: replica.url, token, project: api.projectName });
    const none = { status: 409, code: 'service.relay_not_configured' };
    const body = { alias: newAlias(), kind: 'relay_group', relayGroup: { notifierId: 'ntfy' } };
    expect((await at(api.tokens.owner).call('createCallback', { body })).problem).toMatchObject(none);
    const connected = await at(api.tokens.viewer).call('connectRelay', { body: { notifierId: 'ntfy' } });
    expect(connected.problem).toMatchObject(none);
    const params = { endpointId: made.body.endpoint.id };
    expect((await at(api.tokens.owner).call('testCallback', { params, body: {} })).body).toMatchObject({
      delivered: false,
      error: 'destination_rejected',
    });
  });
});

describe('topics as secrets', () => {
  it('a topic stands in no other answer, no log line and nowhere readable in the database', async () => {
    const ada = await newPerson({ role: 'owner' });
    const { topicUrl = '', groupTopicUrl = '', actorId } = await ada.connect();
    const { endpoint } = (await createPerson(actorId)).body;
    const answered = JSON.stringify([
      await sendTest(endpoint.id),
      (await api.owner.expectSuccess('getCallback', { params: { endpointId: endpoint.id } })).body,
      (await api.owner.expectSuccess('listCallbacks', { query: { limit: 200 } })).body,
      (await api.owner.expectSuccess('listCallbackChanges', { params: { endpointId: endpoint.id } })).body,
      (await api.owner.expectSuccess('listDeliveries', { query: { endpointId: endpoint.id } })).body,
    ]);
    const stored = await api.pool.query<{ text: string }>(
      `select string_agg(row, ' ') as text from (
         select t::text || encode(t.topic_box, 'escape') as row from relay_topics t
         union all select e::text from callback_endpoints e
         union all select d::text from deliveries d
         union all select r::text || coalesce(encode(r.body_box, 'escape'), '') from idempotency_records r) v`,
    );
    expect(stored.rows[0]?.text).toContain(actorId);
    const logged = lines.join('');
    for (const url of [topicUrl, groupTopicUrl]) {
      const topic = url.split('/').at(-1) ?? '';
      expect(topic).toHaveLength(46);
      for (const text of [answered, stored.rows[0]?.text, logged]) expect(text).not.toContain(topic.slice(3));
    }
    expect(logged).toContain('"action":"relay.connect"');
    expect(logged).not.toContain(ntfy.token ?? 'tk_');
  });
});
