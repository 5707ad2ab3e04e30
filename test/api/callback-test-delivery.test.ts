// Test deliveries: one signed POST to a real receiver, its answer, and what is kept of it.
// Holds: testCallback.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ApiFixture } from '../support/api-fixture.ts';
import { type Receiver, verifyWebhook } from '../support/receiver.ts';
import { cancelAll } from '../support/sweeper-fixture.ts';
import { TestDeliveryFixture } from './test-delivery-fixture.ts';

let fixture: TestDeliveryFixture;
let api: ApiFixture;
let receiver: Receiver;
beforeAll(async () => {
  fixture = await TestDeliveryFixture.open();
  ({ api, receiver } = fixture);
});
afterAll(() => fixture?.close());
beforeEach(() => fixture.reset());

/** Throws unless the first request is signed with this secret. */
const verify = (secret: string) => verifyWebhook(receiver.requests[0], secret);

describe('a test delivery', () => {
  it("a test delivery is one signed POST, recorded and answered with the receiver's answer", async () => {
    const endpoint = await fixture.make();
    const { params } = endpoint;
    const { status, body } = await api.manage.call('testCallback', { params });
    expect(status).toBe(200);
    expect(body).toEqual({
      delivered: true,
      statusCode: 200,
      latencyMs: expect.any(Number),
      body: 'thank you',
      deliveryId: expect.stringMatching(/^dlv_[0-9a-f]{32}$/),
    });
    expect(receiver.requests).toHaveLength(1);
    expect(receiver.requests[0]).toMatchObject({ method: 'POST', path: '/hook?a=b' });
    expect(verify(endpoint.secret)).toEqual({
      type: 'callback.test',
      timestamp: expect.any(String),
      data: { organizationId: api.organizationId, projectId: api.projectId, ...endpoint.params },
    });
    const { deliveryId } = body;
    const read = await api.read.expectSuccess('getDelivery', { params: { deliveryId } });
    expect(read.body).toEqual({
      deliveryId,
      ...endpoint.params,
      event: 'callback.test',
      state: 'delivered',
      attemptCount: 1,
      createdAt: expect.any(String),
      deliveredAt: expect.any(String),
      attempts: [{ at: expect.any(String), statusCode: 200, latencyMs: body.latencyMs }],
    });
    expect((await endpoint.read()).lastDelivery).toEqual({
      state: 'delivered',
      at: read.body.deliveredAt,
      statusCode: 200,
    });
  });

  it('a test delivery in an overlap is signed with both secrets', async () => {
    const endpoint = await fixture.make();
    const request = { params: endpoint.params, body: {}, ifMatch: endpoint.etag };
    const rotated = await api.manage.expectSuccess('rotateSigningSecret', request);
    await endpoint.test();
    for (const secret of [rotated.body.signingSecret?.secret ?? '', endpoint.secret]) {
      expect(verify(secret)).toMatchObject({ type: 'callback.test' });
    }
    expect(String(receiver.requests[0]?.headers['webhook-signature']).split(' ')).toHaveLength(2);
  });

  it('a failed test delivery shows the status and is not tried again', async () => {
    fixture.answer((response) => {
      response.statusCode = 503;
      response.end('x'.repeat(2_000));
    });
    const endpoint = await fixture.make();
    const { status, body } = await endpoint.test();
    expect(status).toBe(200);
    expect(body).toMatchObject({ delivered: false, statusCode: 503, body: 'x'.repeat(1_024) });
    const { deliveryId } = body;
    const read = await api.read.expectSuccess('getDelivery', { params: { deliveryId } });
    expect(read.body).toMatchObject({ state: 'exhausted', attemptCount: 1 });
    expect(read.body).not.toHaveProperty('nextAttemptAt');
    expect((await endpoint.read()).lastDelivery).toMatchObject({ state: 'exhausted', statusCode: 503 });
  });

  it('a test delivery without a receiver names the class of the fault', async () => {
    const { body } = await (await fixture.make('http://127.0.0.1:9/')).test();
    expect(body).toMatchObject({ delivered: false, error: 'connection_refused' });
    expect(body).not.toHaveProperty('statusCode');
    const { deliveryId } = body;
    const read = await api.read.expectSuccess('getDelivery', { params: { deliveryId } });
    expect(read.body.attempts).toMatchObject([{ error: 'connection_refused' }]);
  });

  it('a test delivery does not follow a redirect', async () => {
    fixture.answer((response) => {
      response.writeHead(302, { location: `http://127.0.0.1:${receiver.port}/elsewhere` });
      response.end();
    });
    const { body } = await (await fixture.make()).test();
    expect(body).toMatchObject({ delivered: false, statusCode: 302, error: 'redirect' });
    expect(receiver.requests).toHaveLength(1);
  });

  it('a 410 to a test delivery disables the endpoint', async () => {
    fixture.answer((response) => {
      response.statusCode = 410;
      response.end();
    });
    const endpoint = await fixture.make();
    const { body } = await endpoint.test();
    expect(body).toMatchObject({ delivered: false, statusCode: 410 });
    expect(await endpoint.read()).toMatchObject({
      lifecycle: 'disabled',
      disabledReason: 'gone',
      disabledAt: expect.any(String),
      generation: 2,
    });
    const { deliveryId } = body;
    const read = await api.read.expectSuccess('getDelivery', { params: { deliveryId } });
    expect(read.body.state).toBe('exhausted');
    expect((await endpoint.test()).problem).toMatchObject({ status: 409, code: 'service.conflict' });
    const active = {
      params: endpoint.params,
      body: { lifecycle: 'active' },
      ifMatch: '"callback-endpoint-2"',
    };
    const again = await api.manage.expectSuccess('updateCallback', active);
    expect(again.body).not.toHaveProperty('disabledReason');
  });

  it('a 410 of an address that was replaced while the test ran leaves the endpoint active', async () => {
    const endpoint = await fixture.make();
    const { testing, gone } = await fixture.startHeldTest(endpoint);
    const url = `http://127.0.0.1:${receiver.port}/new`;
    const moved = { params: endpoint.params, body: { url }, ifMatch: endpoint.etag };
    await api.manage.expectSuccess('updateCallback', moved);
    gone();
    expect((await testing).body).toMatchObject({ delivered: false, statusCode: 410 });
    expect(await endpoint.read()).toMatchObject({ lifecycle: 'active', generation: 2 });
  });
});

it('a test delivery that is canceled while it runs keeps its attempt', async () => {
  const endpoint = await fixture.make();
  const { testing, release } = await fixture.startHeldTest(endpoint);
  const disable = { params: endpoint.params, body: { lifecycle: 'disabled' }, ifMatch: endpoint.etag };
  await api.manage.expectSuccess('updateCallback', disable);
  await cancelAll(api.pool);
  release();
  const { body } = await testing;
  expect(body).toMatchObject({ delivered: true, statusCode: 200 });
  const { deliveryId } = body;
  const read = await api.read.expectSuccess('getDelivery', { params: { deliveryId } });
  expect(read.body).toMatchObject({ state: 'canceled', attemptCount: 1, attempts: [{ statusCode: 200 }] });
});

it('a test delivery holds no transaction while it waits for its receiver', async () => {
  const endpoint = await fixture.make();
  const { testing, release } = await fixture.startHeldTest(endpoint);
  const { rows } = await api.pool.query<{ count: string }>(
    `select from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`,
  );
  expect(rows).toHaveLength(0);
  const params = { ...endpoint.params };
  const changed = { params, body: { alias: `b-${randomUUID()}` }, ifMatch: endpoint.etag };
  expect((await api.manage.call('updateCallback', changed)).status).toBe(200);
  release();
  expect((await testing).body.delivered).toBe(true);
});
