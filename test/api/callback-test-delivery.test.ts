// Test deliveries: one signed POST to a real receiver, its answer, and what is kept of it.
// Holds: testCallback.
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { newId } from '../../src/domain/id.ts';
import { createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts';
import { cancelAll } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

let api: ApiFixture;
let receiver: Receiver;
let answer: (response: ServerResponse) => void;
beforeAll(async () => {
  api = await openApiFixture();
  receiver = await startReceiver((response) => answer(response));
});
afterAll(async () => {
  await receiver?.close();
  await api?.close();
});
beforeEach(() => {
  answer = (response) => response.end('thank you');
  receiver.requests.length = 0;
});

async function make(url = `http://127.0.0.1:${receiver.port}/hook?a=b`) {
  const body = { alias: `a-${randomUUID()}`, url };
  const made = await api.manage.expectSuccess('createCallback', { body });
  const params = { endpointId: made.body.endpoint.id };
  return {
    params,
    etag: made.etag,
    secret: made.body.signingSecret?.secret ?? '',
    test: (idempotencyKey = randomUUID()) => api.manage.call('testCallback', { params, idempotencyKey }),
    read: async () => (await api.read.expectSuccess('getCallback', { params })).body,
  };
}

/** Throws unless the first request is signed with this secret. */
const verify = (secret: string) => verifyWebhook(receiver.requests[0], secret);

/** Starts a test delivery whose receiver holds its answer until `release`. */
async function startHeldTest(endpoint: Awaited<ReturnType<typeof make>>, idempotencyKey = randomUUID()) {
  const { promise, resolve } = Promise.withResolvers<ServerResponse>();
  answer = resolve;
  const testing = endpoint.test(idempotencyKey);
  const response = await promise;
  return {
    testing,
    release: (body?: string) => response.end(body),
    gone: () => response.writeHead(410).end(),
  };
}

describe('a test delivery', () => {
  it("a test delivery is one signed POST, recorded and answered with the receiver's answer", async () => {
    const endpoint = await make();
    const { status, body } = await endpoint.test();
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
    const endpoint = await make();
    const request = { params: endpoint.params, body: {}, ifMatch: endpoint.etag };
    const rotated = await api.manage.expectSuccess('rotateSigningSecret', request);
    await endpoint.test();
    for (const secret of [rotated.body.signingSecret?.secret ?? '', endpoint.secret]) {
      expect(verify(secret)).toMatchObject({ type: 'callback.test' });
    }
    expect(String(receiver.requests[0]?.headers['webhook-signature']).split(' ')).toHaveLength(2);
  });

  it('a failed test delivery shows the status and is not tried again', async () => {
    answer = (response) => {
      response.statusCode = 503;
      response.end('x'.repeat(2_000));
    };
    const endpoint = await make();
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
    const { body } = await (await make('http://127.0.0.1:9/')).test();
    expect(body).toMatchObject({ delivered: false, error: 'connection_refused' });
    expect(body).not.toHaveProperty('statusCode');
    const { deliveryId } = body;
    const read = await api.read.expectSuccess('getDelivery', { params: { deliveryId } });
    expect(read.body.attempts).toMatchObject([{ error: 'connection_refused' }]);
  });

  it('a test delivery does not follow a redirect', async () => {
    answer = (response) => {
      response.writeHead(302, { location: `http://127.0.0.1:${receiver.port}/elsewhere` });
      response.end();
    };
    const { body } = await (await make()).test();
    expect(body).toMatchObject({ delivered: false, statusCode: 302, error: 'redirect' });
    expect(receiver.requests).toHaveLength(1);
  });

  it('a 410 to a test delivery disables the endpoint', async () => {
    answer = (response) => {
      response.statusCode = 410;
      response.end();
    };
    const endpoint = await make();
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
    const endpoint = await make();
    const { testing, gone } = await startHeldTest(endpoint);
    const url = `http://127.0.0.1:${receiver.port}/new`;
    const moved = { params: endpoint.params, body: { url }, ifMatch: endpoint.etag };
    await api.manage.expectSuccess('updateCallback', moved);
    gone();
    expect((await testing).body).toMatchObject({ delivered: false, statusCode: 410 });
    expect(await endpoint.read()).toMatchObject({ lifecycle: 'active', generation: 2 });
  });
});

describe('one Idempotency-Key', () => {
  it('a repeated test call sends nothing and gets the first result', async () => {
    const endpoint = await make();
    const key = randomUUID();
    const first = await endpoint.test(key);
    expect((await endpoint.test(key)).body).toEqual(first.body);
    expect(receiver.requests).toHaveLength(1);
    expect((await endpoint.test()).body.deliveryId).not.toBe(first.body.deliveryId);
    expect(receiver.requests).toHaveLength(2);
  });

  it('concurrent duplicates of a test call at two replicas send one message', async () => {
    const endpoint = await make();
    const replica = await api.startReplica();
    const second = createApiClient({ url: replica.url, token: api.tokens.manage });
    const idempotencyKey = randomUUID();
    const { testing: first, release } = await startHeldTest(endpoint, idempotencyKey);
    const duplicate = await second.call('testCallback', { params: endpoint.params, idempotencyKey });
    expect(duplicate.problem).toMatchObject({ status: 409, code: 'service.conflict', retryable: true });
    release('once');
    const { body } = await first;
    const later = await second.call('testCallback', { params: endpoint.params, idempotencyKey });
    expect(later.body).toEqual(body);
    expect(receiver.requests).toHaveLength(1);
  });

  it('a test call repeated after a crash of the api sends nothing again and loses no delivery', async () => {
    const endpoint = await make();
    const key = randomUUID();
    const { body } = await endpoint.test(key);
    // The state after an api died while it was sending: the row exists, outcome and answer do not.
    await api.pool.query('delete from idempotency_records where key = $1', [key]);
    await api.pool.query(
      `update deliveries set state = 'pending', attempt_count = 0, ended_at = null, delivered_at = null,
         first_at = null, first_status_code = null, first_latency_ms = null, next_attempt_at = created_at + interval '60 seconds' where delivery_id = $1`,
      [body.deliveryId],
    );
    const waiting = await endpoint.test(key);
    expect(waiting.problem).toMatchObject({ status: 409, retryable: true });
    expect(waiting.headers.get('retry-after')).toBe('1');
    // What a dispatcher writes when it has taken over.
    await api.pool.query(
      `update deliveries set state = 'delivered', first_at = clock_timestamp(), first_status_code = 204,
         first_latency_ms = 5 where delivery_id = $1`,
      [body.deliveryId],
    );
    const found = await endpoint.test(key);
    expect(found.body).toEqual({
      delivered: true,
      statusCode: 204,
      latencyMs: 5,
      deliveryId: body.deliveryId,
    });
    expect(receiver.requests).toHaveLength(1);
  });
});

describe('one test delivery at a time', () => {
  /** A test delivery whose api died while it was sending, so long ago. */
  async function startCrashedTest(endpoint: Awaited<ReturnType<typeof make>>, seconds: number) {
    await api.pool.query(
      `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, event, webhook_id, body,
         created_at, next_attempt_at)
       select $1, $2, $3, $1, 'callback.test', $2, '{}', v.at, v.at + interval '60 seconds'
       from (select clock_timestamp() - $4 * interval '1 second') as v (at)`,
      [api.projectId, newId('dlv', Date.now() - seconds * 1_000), endpoint.params.endpointId, seconds],
    );
  }

  it('a second test delivery to an endpoint is a 409 with Retry-After while one runs, at every replica', async () => {
    const endpoint = await make();
    const elsewhere = await make();
    const replica = await api.startReplica();
    const second = createApiClient({ url: replica.url, token: api.tokens.manage });
    const { testing, release } = await startHeldTest(endpoint);
    const call = { params: endpoint.params };
    const idempotencyKey = randomUUID();
    for (const client of [second, api.manage]) {
      const refused = await client.call('testCallback', { ...call, idempotencyKey });
      expect(refused.problem).toMatchObject({
        status: 409,
        code: 'service.conflict',
        retryable: true,
        retryAfterSeconds: 1,
        detail: expect.stringContaining('Another test delivery'),
      });
      expect(refused.headers.get('retry-after')).toBe('1');
    }
    answer = (response) => response.end();
    expect((await elsewhere.test()).body.delivered).toBe(true);
    release();
    expect((await testing).body.delivered).toBe(true);
    const again = await second.call('testCallback', { ...call, idempotencyKey });
    expect(again.body.delivered).toBe(true);
    expect(receiver.requests).toHaveLength(3);
  });

  it('of many test deliveries that are asked for at once, at two replicas, one is under way', async () => {
    const endpoint = await make();
    const replica = await api.startReplica();
    const second = createApiClient({ url: replica.url, token: api.tokens.manage });
    const held: ServerResponse[] = [];
    answer = (response) => held.push(response);
    const calls = Array.from({ length: 20 }, (_, index) =>
      (index % 2 ? second : api.manage).call('testCallback', { params: endpoint.params }),
    );
    const refused = calls.map(async (call) => (await call).status === 409);
    let count = 0;
    for (const one of refused) void one.then((is) => (count += is ? 1 : 0));
    await waitFor(() => count === 19 && held.length === 1, { what: 'all but one are refused' });
    held[0]?.end();
    expect((await Promise.all(calls)).filter(({ status }) => status === 200)).toHaveLength(1);
    expect(receiver.requests).toHaveLength(1);
  });

  it('a test delivery whose api died holds up others until a dispatcher may take it over, and no longer', async () => {
    const endpoint = await make();
    await startCrashedTest(endpoint, 50);
    expect((await endpoint.test()).problem).toMatchObject({ status: 409, retryable: true });
    await api.pool.query("update deliveries set state = 'canceled' where endpoint_id = $1", [
      endpoint.params.endpointId,
    ]);
    await startCrashedTest(endpoint, 61);
    expect((await endpoint.test()).body.delivered).toBe(true);
  });

  it('a test delivery that a dispatcher has taken over and sends now holds up others', async () => {
    const endpoint = await make();
    await startCrashedTest(endpoint, 61);
    const setLease = (until: string) =>
      api.pool.query(`update deliveries set lease_until = ${until} where endpoint_id = $1`, [
        endpoint.params.endpointId,
      ]);
    await setLease(`now() + interval '1 minute'`);
    expect((await endpoint.test()).problem).toMatchObject({ status: 409, retryable: true });
    await setLease('now()');
    expect((await endpoint.test()).body.delivered).toBe(true);
  });

  it('a redelivery of a test delivery holds up no test', async () => {
    const endpoint = await make();
    const { body } = await endpoint.test();
    const params = { deliveryId: body.deliveryId };
    await api.manage.expectSuccess('redeliver', { params });
    expect((await endpoint.test()).body.delivered).toBe(true);
  });
});

it('a test delivery that is canceled while it runs keeps its attempt', async () => {
  const endpoint = await make();
  const { testing, release } = await startHeldTest(endpoint);
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
  const endpoint = await make();
  const { testing, release } = await startHeldTest(endpoint);
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
