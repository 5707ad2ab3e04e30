// Deliveries: lists with filters and pages, one with its attempts, and sending one again.
// Holds: listIncidentDeliveries, listDeliveries, getDelivery, redeliver.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { cancelAll } from '../support/sweeper-fixture.ts';
import { makeMonitor } from './monitor-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const list = async (query: Record<string, unknown>) =>
  (await api.read.expectSuccess('listDeliveries', { query })).body.items;

/** An alert to an endpoint of its own: `incident.opened`, pending. */
async function alert() {
  const alias = `a-${randomUUID()}`;
  const made = await api.manage.expectSuccess('createCallback', {
    body: { alias, url: 'http://127.0.0.1:9/' },
  });
  const endpoint = { endpointId: made.body.endpoint.id };
  const monitor = await makeMonitor(api, { callback: { kind: 'named', alias } });
  const incidentId = await monitor.fail();
  const [delivery] = await list(endpoint);
  if (!delivery) throw new Error('There is no delivery.');
  return { ...endpoint, etag: made.etag, monitor, incidentId, delivery, deliveryId: delivery.deliveryId };
}

/** As a dispatcher leaves it after its attempts. */
async function finish(deliveryId: string, state: 'delivered' | 'exhausted'): Promise<void> {
  await api.pool.query(
    `update deliveries set state = $2, attempt_count = 2, next_attempt_at = null, ended_at = clock_timestamp(),
       delivered_at = case when $2 = 'delivered' then clock_timestamp() end,
       first_at = '2026-01-01T00:00:00Z', first_latency_ms = 10000, first_error = 'timeout'
     where delivery_id = $1`,
    [deliveryId, state],
  );
  await api.pool.query(
    `insert into delivery_attempts (project_id, delivery_id, attempt, at, status_code, latency_ms, error) values
       ($1, $2, 2, '2026-01-01T00:00:05Z', 200, 12, null)`,
    [api.projectId, deliveryId],
  );
}

describe('a delivery', () => {
  it('a delivery shows every attempt', async () => {
    const { delivery, deliveryId, endpointId, incidentId, monitor } = await alert();
    expect(delivery).toEqual({
      deliveryId,
      endpointId,
      incidentId,
      monitorId: monitor.monitorId,
      event: 'incident.opened',
      state: 'pending',
      sequence: 1,
      attemptCount: 0,
      createdAt: expect.any(String),
      nextAttemptAt: expect.any(String),
    });
    const params = { deliveryId };
    const fresh = await api.read.expectSuccess('getDelivery', { params });
    expect(fresh.body).toEqual({ ...delivery, attempts: [] });
    await finish(deliveryId, 'delivered');
    const { body } = await api.read.expectSuccess('getDelivery', { params });
    expect(body).toMatchObject({
      state: 'delivered',
      attemptCount: 2,
      deliveredAt: expect.any(String),
      attempts: [
        { at: '2026-01-01T00:00:00.000Z', latencyMs: 10_000, error: 'timeout' },
        { at: '2026-01-01T00:00:05.000Z', latencyMs: 12, statusCode: 200 },
      ],
    });
    expect(body).not.toHaveProperty('nextAttemptAt');
  });

  it('a delivery is a 404 for another organization', async () => {
    const { deliveryId, endpointId } = await alert();
    const params = { deliveryId };
    expect((await api.other.manage.call('getDelivery', { params })).problem?.status).toBe(404);
    expect((await api.other.manage.call('redeliver', { params })).problem?.status).toBe(404);
    const { body } = await api.other.manage.expectSuccess('listDeliveries', { query: { endpointId } });
    expect(body.items).toEqual([]);
  });

  it('a delivery to an endpoint of another project belongs to the project of its monitor', async () => {
    const { endpointId } = await alert();
    await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId } });
    const { body: project } = await api.owner.expectSuccess('createProject', {
      body: { name: randomUUID() },
    });
    const sibling = api.owner.as(api.tokens.owner, project.projectId);
    const made = await sibling.expectSuccess('createMonitor', { body: { name: 'of the sibling' } });
    await fetch(`${api.url}${new URL(made.body.publishUrl ?? '').pathname}/fail`);
    const { body } = await sibling.expectSuccess('listDeliveries', { query: { endpointId } });
    expect(body.items).toMatchObject([{ endpointId, monitorId: made.body.monitorId }]);
    expect(await list({ endpointId })).toHaveLength(1);
    const params = { deliveryId: body.items[0]?.deliveryId ?? '' };
    expect((await sibling.call('redeliver', { params })).status).toBe(202);
    // Disabling it stops the deliveries of every project.
    await api.manage.expectSuccess('updateCallback', {
      params: { endpointId },
      body: { lifecycle: 'disabled' },
      ifMatch: '"callback-endpoint-1"',
    });
    await cancelAll(api.pool);
    const after = await sibling.expectSuccess('listDeliveries', { query: { endpointId } });
    expect(after.body.items.map((item) => item.state)).toEqual(['canceled', 'canceled']);
    expect((await sibling.call('redeliver', { params })).problem?.status).toBe(409);
    await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId: null } });
  });
});

describe('the list', () => {
  it('the list filters deliveries by state, endpoint and incident, newest first, in pages', async () => {
    const { endpointId, deliveryId, incidentId, monitor } = await alert();
    await finish(deliveryId, 'exhausted');
    await monitor.beat();
    const all = await list({ endpointId });
    expect(all.map(({ event, sequence }) => [event, sequence])).toEqual([
      ['incident.recovered', 2],
      ['incident.opened', 1],
    ]);
    expect(await list({ incidentId })).toEqual(all);
    expect(await list({ endpointId, state: 'exhausted' })).toEqual(all.slice(1));
    expect(await list({ endpointId, state: 'pending' })).toEqual(all.slice(0, 1));
    expect(await list({ endpointId, incidentId, state: 'canceled' })).toEqual([]);
    expect(await list({ incidentId: 'nobody' })).toEqual([]);
    const params = { incidentId };
    const query = { limit: 1 };
    const first = await api.read.expectSuccess('listIncidentDeliveries', { params, query });
    const next = { params, query: { limit: 1, cursor: first.body.nextCursor } };
    const second = await api.read.expectSuccess('listIncidentDeliveries', next);
    expect([...first.body.items, ...second.body.items]).toEqual(all);
    expect(second.body).not.toHaveProperty('nextCursor');
    const unknown = await api.read.call('listIncidentDeliveries', { params: { incidentId: 'nobody' } });
    expect(unknown.problem?.status).toBe(404);
    const foreign = { cursor: first.body.nextCursor };
    expect((await api.read.call('listIncidents', { query: foreign })).problem).toMatchObject({
      status: 400,
      fieldErrors: [{ path: 'cursor' }],
    });
    expect((await api.read.call('listDeliveries', { query: { state: 'lost' } })).problem?.status).toBe(400);
  });
});

describe('redelivering', () => {
  it('a redelivery puts the same message into the outbox under a new id', async () => {
    const { deliveryId, endpointId, incidentId, delivery } = await alert();
    await finish(deliveryId, 'exhausted');
    const params = { deliveryId };
    const idempotencyKey = randomUUID();
    const answer = await api.manage.expectSuccess('redeliver', { params, idempotencyKey });
    expect(answer.status).toBe(202);
    const { body } = answer;
    expect(body).toEqual({
      ...delivery,
      deliveryId: expect.stringMatching(/^dlv_[0-9a-f]{32}$/),
      redeliveryOf: deliveryId,
      createdAt: expect.any(String),
      nextAttemptAt: expect.any(String),
    });
    expect(body.deliveryId).not.toBe(deliveryId);
    const duplicate = await api.manage.expectSuccess('redeliver', { params, idempotencyKey });
    expect(duplicate.status).toBe(202);
    expect(duplicate.body).toEqual(body);
    expect(await list({ endpointId })).toHaveLength(2);
    const { rows } = await api.pool.query<{ webhook_id: string; body: string }>(
      'select distinct webhook_id, body from deliveries where delivery_id = any($1)',
      [[deliveryId, body.deliveryId]],
    );
    expect(rows).toHaveLength(1);
    const timeline = await api.read.expectSuccess('getIncidentTimeline', { params: { incidentId } });
    expect(timeline.body.items.at(-1)).toMatchObject({
      type: 'delivery',
      actor: { kind: 'api_credential' },
      delivery: { deliveryId: body.deliveryId, endpointId, state: 'pending' },
      detail: { redeliveryOf: deliveryId },
    });
  });

  it('a redelivery to a disabled or removed endpoint is refused', async () => {
    const { deliveryId, endpointId, etag } = await alert();
    const params = { endpointId };
    const disabled = await api.manage.expectSuccess('updateCallback', {
      params,
      body: { lifecycle: 'disabled' },
      ifMatch: etag,
    });
    const redeliver = () => api.manage.call('redeliver', { params: { deliveryId } });
    expect((await redeliver()).problem).toMatchObject({
      status: 409,
      code: 'service.conflict',
      detail: expect.stringContaining('disabled'),
    });
    await api.manage.expectSuccess('deleteCallback', { params, ifMatch: disabled.etag });
    expect((await redeliver()).problem).toMatchObject({
      status: 409,
      detail: expect.stringContaining('removed'),
    });
    expect(await list({ endpointId })).toHaveLength(1);
  });

  it('a redelivery needs the right to manage', async () => {
    const { deliveryId } = await alert();
    const params = { deliveryId };
    expect((await api.read.call('redeliver', { params })).problem?.status).toBe(403);
    expect((await api.manage.call('redeliver', { params: { deliveryId: 'dlv_0' } })).problem?.status).toBe(
      404,
    );
  });
});
