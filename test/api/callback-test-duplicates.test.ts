// Test deliveries that are asked for twice: under one Idempotency-Key one is sent, and to one endpoint one at a time, over all
// replicas (docs/contract/callbacks.md).
import { createHash, randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { newId } from '../../src/domain/id.ts';
import { createApiClient } from '../support/api-client.ts';
import type { ApiFixture } from '../support/api-fixture.ts';
import type { Receiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait-for.ts';
import { TestDeliveryFixture, type TestedEndpoint } from './test-delivery-fixture.ts';

let fixture: TestDeliveryFixture;
let api: ApiFixture;
let receiver: Receiver;
beforeAll(async () => {
  fixture = await TestDeliveryFixture.open();
  ({ api, receiver } = fixture);
});
afterAll(() => fixture?.close());
beforeEach(() => fixture.reset());

describe('one Idempotency-Key', () => {
  it('a repeated test call sends nothing and gets the first result', async () => {
    const endpoint = await fixture.make();
    const key = randomUUID();
    const first = await endpoint.test(key);
    expect((await endpoint.test(key)).body).toEqual(first.body);
    expect(receiver.requests).toHaveLength(1);
    expect((await endpoint.test()).body.deliveryId).not.toBe(first.body.deliveryId);
    expect(receiver.requests).toHaveLength(2);
  });

  it('concurrent duplicates of a test call at two replicas send one message', async () => {
    const endpoint = await fixture.make();
    const replica = await api.startReplica();
    const second = createApiClient({ url: replica.url, token: api.tokens.manage });
    const idempotencyKey = randomUUID();
    const { testing: first, release } = await fixture.startHeldTest(endpoint, idempotencyKey);
    const duplicate = await second.call('testCallback', { params: endpoint.params, idempotencyKey });
    expect(duplicate.problem).toMatchObject({ status: 409, code: 'service.conflict', retryable: true });
    release('once');
    const { body } = await first;
    const later = await second.call('testCallback', { params: endpoint.params, idempotencyKey });
    expect(later.body).toEqual(body);
    expect(receiver.requests).toHaveLength(1);
  });

  it('a test call repeated after a crash of the api sends nothing again and loses no delivery', async () => {
    const endpoint = await fixture.make();
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

  it('a test call repeated after a crash and after midnight sends nothing again, also of an endpoint that was ended by it', async () => {
    fixture.answer((response) => response.writeHead(410).end());
    const endpoint = await fixture.make();
    const key = randomUUID();
    const { body: first } = await endpoint.test(key);
    await api.pool.query('delete from idempotency_records where key = $1', [key]);
    // As if the first call had come on the day before.
    const day = Math.floor(Date.now() / 86_400_000) - 1;
    const text = [api.projectId, endpoint.params.endpointId, key, day].join('\n');
    const webhookId = `msg_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;
    const moved = 'update deliveries set webhook_id = $2 where delivery_id = $1';
    await api.pool.query(moved, [first.deliveryId, webhookId]);
    const { body: repeated } = await endpoint.test(key);
    expect([repeated.deliveryId, receiver.requests.length]).toEqual([first.deliveryId, 1]);
    // After 24 hours the key is new.
    await api.pool.query('delete from idempotency_records where key = $1', [key]);
    const old = `update deliveries set created_at = created_at - interval '1 day' where delivery_id = $1`;
    await api.pool.query(old, [first.deliveryId]);
    expect((await endpoint.test(key)).problem?.detail).toContain('is disabled');
  });
});

describe('one test delivery at a time', () => {
  /** A test delivery whose api died while it was sending, so long ago. */
  async function startCrashedTest(endpoint: TestedEndpoint, seconds: number) {
    await api.pool.query(
      `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, event, webhook_id, body,
         created_at, next_attempt_at)
       select $1, $2, $3, $1, 'callback.test', $2, '{}', v.at, v.at + interval '60 seconds'
       from (select clock_timestamp() - $4 * interval '1 second') as v (at)`,
      [api.projectId, newId('dlv', Date.now() - seconds * 1_000), endpoint.params.endpointId, seconds],
    );
  }

  it('a second test delivery to an endpoint is a 409 with Retry-After while one runs, at every replica', async () => {
    const endpoint = await fixture.make();
    const elsewhere = await fixture.make();
    const replica = await api.startReplica();
    const second = createApiClient({ url: replica.url, token: api.tokens.manage });
    const { testing, release } = await fixture.startHeldTest(endpoint);
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
    fixture.answer((response) => response.end());
    expect((await elsewhere.test()).body.delivered).toBe(true);
    release();
    expect((await testing).body.delivered).toBe(true);
    const again = await second.call('testCallback', { ...call, idempotencyKey });
    expect(again.body.delivered).toBe(true);
    expect(receiver.requests).toHaveLength(3);
  });

  it('of many test deliveries that are asked for at once, at two replicas, one is under way', async () => {
    const endpoint = await fixture.make();
    const replica = await api.startReplica();
    const second = createApiClient({ url: replica.url, token: api.tokens.manage });
    const held: ServerResponse[] = [];
    fixture.answer((response) => held.push(response));
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
    const endpoint = await fixture.make();
    await startCrashedTest(endpoint, 50);
    expect((await endpoint.test()).problem).toMatchObject({ status: 409, retryable: true });
    await api.pool.query("update deliveries set state = 'canceled' where endpoint_id = $1", [
      endpoint.params.endpointId,
    ]);
    await startCrashedTest(endpoint, 61);
    expect((await endpoint.test()).body.delivered).toBe(true);
  });

  it('a test delivery that a dispatcher has taken over and sends now holds up others', async () => {
    const endpoint = await fixture.make();
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
    const endpoint = await fixture.make();
    const { body } = await endpoint.test();
    const params = { deliveryId: body.deliveryId };
    await api.manage.expectSuccess('redeliver', { params });
    expect((await endpoint.test()).body.delivered).toBe(true);
  });
});
