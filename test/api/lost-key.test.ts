// What its owner can do with an endpoint whose encryption key is lost (docs/operations.md, Encryption keys).
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { secretPlace, urlPlace } from '../../src/service/callbacks/endpoint-seal.ts';
import { relayTopicPlace } from '../../src/store/callbacks/relay-topics.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type Ntfy, openNtfy } from '../support/ntfy.ts';
import { type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts';

let api: ApiFixture;
let receiver: Receiver;

let ntfy: Ntfy;

beforeAll(async () => {
  ntfy = await openNtfy();
  const relay = { relayUrl: ntfy.url, relayToken: ntfy.token, relayNotifiers: ['ntfy'] };
  api = await openApiFixture({ config: relay });
  receiver = await startReceiver();
});
afterAll(async () => {
  await api?.close();
  await receiver?.close();
  await ntfy?.close();
});

const LOST = new SecretBox([{ id: 'lost', key: Buffer.alloc(32, 9) }]);

/** Seals everything of an endpoint with a key that the api does not have. */
async function loseKey(endpointId: string): Promise<void> {
  const ref = { projectId: api.projectId, endpointId };
  await api.pool.query('update callback_endpoints set url_box = $2 where endpoint_id = $1', [
    endpointId,
    LOST.seal('https://lost.example', urlPlace(ref)),
  ]);
  await api.pool.query('update signing_secrets set secret_box = $2 where endpoint_id = $1', [
    endpointId,
    LOST.seal('sigcb_v1_lost', secretPlace(ref)),
  ]);
}

async function makeWithLostKey(alias: string) {
  const made = await api.manage.expectSuccess('createCallback', {
    body: { alias, url: 'http://127.0.0.1:9/old' },
  });
  const params = { endpointId: made.body.endpoint.id };
  await loseKey(params.endpointId);
  return { params, ifMatch: made.etag };
}

it('an endpoint whose key is lost works again with a new URL and a rotation without an overlap', async () => {
  const { params, ifMatch } = await makeWithLostKey('lost');
  const updated = await api.manage.expectSuccess('updateCallback', {
    params,
    ifMatch,
    body: { url: receiver.url },
  });
  expect(updated.body.url).toBe(receiver.url);
  const rotated = await api.manage.expectSuccess('rotateSigningSecret', {
    params,
    ifMatch: updated.etag,
    body: { overlapSeconds: 0 },
  });
  const { body } = await api.manage.expectSuccess('testCallback', { params });
  expect(body.delivered).toBe(true);
  const secret = rotated.body.signingSecret?.secret ?? '';
  expect(() => verifyWebhook(receiver.requests.at(-1), secret)).not.toThrow();
});

it('an endpoint whose key is lost can be removed', async () => {
  const request = await makeWithLostKey('removed');
  await api.manage.expectSuccess('deleteCallback', request);
});

it('an inline binding whose key is lost works again when it is set again', async () => {
  const made = await api.manage.expectSuccess('createMonitor', {
    body: { name: 'inline', callback: { kind: 'inline', url: 'http://127.0.0.1:9/old' } },
  });
  const { monitorId } = made.body;
  const { rows } = await api.pool.query('select inline_endpoint_id from monitors where monitor_id = $1', [
    monitorId,
  ]);
  await loseKey(rows[0]?.inline_endpoint_id);
  const binding = { kind: 'inline', url: receiver.url };
  const { body } = await api.manage.expectSuccess('setMonitorBinding', {
    params: { monitorId },
    ifMatch: made.etag,
    body: { binding },
  });
  expect(body.binding).toEqual(binding);
});

/** Somebody who signs in for the first time. */
async function newPerson() {
  const claims = { role: 'viewer', org: 'acme' };
  const token = await api.issuer.sign({ subject: `ada-${randomUUID()}`, claims });
  const client = createApiClient({ url: api.url, token });
  const body = { notifierId: 'ntfy' };
  return {
    call: () => client.call('connectRelay', { body }),
    connect: async () => (await client.expectSuccess('connectRelay', { body })).body,
  };
}

/** Seals the topic of the organization with the key that the api does not have, and returns the box before. */
async function loseTopic() {
  const { rows } = await api.pool.query<{ topic_id: string; topic_box: Buffer }>(
    `select topic_id, topic_box from relay_topics where organization_id = $1 and actor_id = ''`,
    [api.organizationId],
  );
  const [row] = rows;
  if (!row) throw new Error('The organization has no topic.');
  await writeTopic(row.topic_id, LOST.seal('bk_lost', relayTopicPlace(row.topic_id)));
  return { topicId: row.topic_id, box: row.topic_box };
}
const writeTopic = (topicId: string, box: Buffer) =>
  api.pool.query('update relay_topics set topic_box = $2 where topic_id = $1', [topicId, box]);

it('an api without the key of the topic of the organization connects nobody, replaces nothing, and says so', async () => {
  const { call, connect } = await newPerson();
  const before = await connect();
  const boxes = async () =>
    (await api.pool.query('select topic_id, topic_box from relay_topics order by 1')).rows;
  const { topicId, box } = await loseTopic();
  const kept = await boxes();
  const { status, problem } = await call();
  expect([status, problem?.code]).toEqual([503, 'service.temporarily_unavailable']);
  expect(problem?.detail).toContain('an encryption key is missing here. Nobody was connected.');
  expect(await boxes()).toEqual(kept);
  // The key is there again.
  await writeTopic(topicId, box);
  expect((await connect()).groupTopicUrl).toBe(before.groupTopicUrl);
});

it('where the key of that topic is given up, who connects again gets a new one, and all get the same', async () => {
  const before = await (await newPerson()).connect();
  const made = await api.manage.expectSuccess('createCallback', {
    body: { alias: 'all', kind: 'relay_group', relayGroup: { notifierId: 'ntfy' } },
  });
  await loseTopic();
  // docs/operations.md, "Encryption keys".
  await api.pool.query(`update relay_topics set topic_box = null where topic_key_id = 'lost'`);
  const people = await Promise.all([newPerson(), newPerson(), newPerson(), newPerson()]);
  const connected = await Promise.all(people.map(({ connect }) => connect()));
  const [address, ...others] = new Set(connected.map(({ groupTopicUrl }) => groupTopicUrl));
  expect(others).toEqual([]);
  expect(address).not.toBe(before.groupTopicUrl);
  const params = { endpointId: made.body.endpoint.id };
  expect((await api.manage.expectSuccess('testCallback', { params })).body.delivered).toBe(true);
  expect(await ntfy.messagesAt(address)).toHaveLength(1);
});
