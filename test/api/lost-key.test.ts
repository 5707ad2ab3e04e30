// What its owner can do with an endpoint whose encryption key is lost (docs/operations.md, Encryption keys).
import { afterAll, beforeAll, expect, it } from 'vitest';
import { secretPlace, urlPlace } from '../../src/service/callbacks/endpoint-seal.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts';

let api: ApiFixture;
let receiver: Receiver;

beforeAll(async () => {
  api = await openApiFixture();
  receiver = await startReceiver();
});
afterAll(async () => {
  await api?.close();
  await receiver?.close();
});

/** Seals everything of an endpoint with a key that the api does not have. */
async function loseKey(endpointId: string): Promise<void> {
  const lost = new SecretBox([{ id: 'lost', key: Buffer.alloc(32, 9) }]);
  const ref = { projectId: api.projectId, endpointId };
  await api.pool.query('update callback_endpoints set url_box = $2 where endpoint_id = $1', [
    endpointId,
    lost.seal('https://lost.example', urlPlace(ref)),
  ]);
  await api.pool.query('update signing_secrets set secret_box = $2 where endpoint_id = $1', [
    endpointId,
    lost.seal('sigcb_v1_lost', secretPlace(ref)),
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
