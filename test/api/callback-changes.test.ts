// Changes of one callback endpoint: update, lifecycle, rotation, and the ETags that guard them.
// Holds: updateCallback, rotateSigningSecret.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { cancelAll } from '../support/sweeper-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const newAlias = () => `a-${randomUUID()}`;

async function make(alias = newAlias()) {
  const body = { alias, url: 'http://127.0.0.1:9/hook' };
  const made = await api.manage.expectSuccess('createCallback', { body });
  const params = { endpointId: made.body.endpoint.id };
  return {
    ...made,
    alias,
    params,
    update: (patch: object, ifMatch: string = made.etag, idempotencyKey = randomUUID()) =>
      api.manage.call('updateCallback', { params, body: patch, ifMatch, idempotencyKey }),
    rotate: (overlap: object, ifMatch: string = made.etag, idempotencyKey = randomUUID()) =>
      api.manage.call('rotateSigningSecret', { params, body: overlap, ifMatch, idempotencyKey }),
    read: async () => (await api.manage.expectSuccess('getCallback', { params })).body,
  };
}

describe('an update', () => {
  it('an update of an endpoint changes the fields that it states, and the ETag', async () => {
    const endpoint = await make();
    const alias = newAlias();
    const changed = await endpoint.update({ alias, url: 'http://127.0.0.1:9/other' });
    expect(changed.status).toBe(200);
    expect(changed.etag).toBe('"callback-endpoint-2"');
    expect(changed.body).toEqual({
      ...endpoint.body.endpoint,
      alias,
      url: 'http://127.0.0.1:9/other',
      generation: 2,
      updatedAt: expect.any(String),
      // A changed URL keeps the secret.
      secret: endpoint.body.endpoint.secret,
    });
    expect(await endpoint.read()).toEqual(changed.body);
  });

  it('an update of an endpoint that changes nothing keeps generation and ETag', async () => {
    const endpoint = await make();
    const { alias, url } = endpoint.body.endpoint;
    for (const patch of [{}, { alias }, { url }, { lifecycle: 'active', alias, url }]) {
      const same = await endpoint.update(patch);
      expect(same.etag).toBe(endpoint.etag);
      expect(same.body).toEqual(endpoint.body.endpoint);
    }
  });

  it('an update of an endpoint needs the current ETag and an Idempotency-Key', async () => {
    const endpoint = await make();
    const { params } = endpoint;
    const body = { alias: newAlias() };
    expect((await api.manage.call('updateCallback', { params, body })).problem?.status).toBe(428);
    for (const stale of ['"callback-endpoint-2"', '"callback-endpoint-0"', '"configuration-1"', '"x"']) {
      expect((await endpoint.update(body, stale)).problem?.code).toBe('service.precondition_failed');
    }
    expect((await endpoint.update(body, '*')).problem?.status).toBe(400);
    const keyless = { params, body, ifMatch: endpoint.etag, idempotencyKey: null };
    expect((await api.manage.call('updateCallback', keyless)).problem).toMatchObject({
      status: 400,
      fieldErrors: [{ path: 'Idempotency-Key' }],
    });
    const key = randomUUID();
    const first = await endpoint.update(body, endpoint.etag, key);
    // The ETag is stale by now, and the duplicate is still answered.
    expect((await endpoint.update(body, endpoint.etag, key)).body).toEqual(first.body);
  });

  it('of many updates of an endpoint with the same ETag one succeeds', async () => {
    const endpoint = await make();
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => endpoint.update({ alias: newAlias() })),
    );
    expect(answers.map((answer) => answer.status).toSorted()).toEqual([200, 412, 412, 412, 412, 412]);
    expect((await endpoint.read()).generation).toBe(2);
  });

  it('an alias that another endpoint has is a conflict', async () => {
    const [one, two] = [await make(), await make()];
    expect((await two.update({ alias: one.alias })).problem).toMatchObject({
      status: 409,
      code: 'service.conflict',
    });
    expect(await two.read()).toEqual(two.body.endpoint);
  });

  it.each([
    [{ url: 'ftp://a.example/' }, 'service.validation_failed', 'url'],
    [{ url: 'https://10.1.2.3/' }, 'service.callback_destination_rejected', 'url'],
    [{ relayGroup: { notifierId: 'n' } }, 'service.validation_failed', 'relayGroup'],
    [{ kind: 'relay_group' }, 'service.validation_failed', 'kind'],
    [{ lifecycle: 'removed' }, 'service.validation_failed', 'lifecycle'],
    [{ alias: null }, 'service.validation_failed', 'alias'],
  ])('an update of an endpoint with %j is refused', async (patch, code, path) => {
    const endpoint = await make();
    const { problem } = await endpoint.update(patch);
    expect(problem).toMatchObject({ status: 400, code });
    expect(problem?.fieldErrors?.map((error) => error.path)).toContain(path);
    expect(await endpoint.read()).toEqual(endpoint.body.endpoint);
  });
});

describe('disabling', () => {
  it('disabling an endpoint cancels its deliveries, shows in timelines and bindings, and can be undone', async () => {
    const endpoint = await make();
    const monitor = await api.manage.expectSuccess('createMonitor', {
      body: { name: 'bound', callback: { kind: 'named', alias: endpoint.alias } },
    });
    const params = { monitorId: monitor.body.monitorId };
    const address = `${api.url}${new URL(monitor.body.publishUrl ?? '').pathname}`;
    expect((await fetch(`${address}/fail`)).status).toBe(200);

    const disabled = await endpoint.update({ lifecycle: 'disabled' });
    expect(disabled.body).toMatchObject({ lifecycle: 'disabled', generation: 2 });
    expect(disabled.body.disabledAt).toBe(disabled.body.updatedAt);
    expect(disabled.body).not.toHaveProperty('disabledReason');
    await cancelAll(api.pool);
    const query = endpoint.params;
    const deliveries = await api.read.expectSuccess('listDeliveries', { query });
    expect(deliveries.body.items).toMatchObject([{ state: 'canceled', event: 'incident.opened' }]);
    expect(deliveries.body.items[0]).not.toHaveProperty('nextAttemptAt');
    const binding = await api.read.expectSuccess('getMonitorBinding', { params });
    expect(binding.body.unavailableReason).toBe('endpoint_disabled');

    expect((await fetch(address)).status).toBe(200);
    const incidents = await api.read.expectSuccess('listMonitorIncidents', { params });
    const incidentId = incidents.body.items[0]?.incidentId ?? '';
    const timeline = await api.read.expectSuccess('getIncidentTimeline', { params: { incidentId } });
    expect(timeline.body.items.map((entry) => entry.type)).toEqual([
      'opened',
      'delivery',
      'recovering',
      'recovered',
      'suppressed',
    ]);
    expect(timeline.body.items[1]).toMatchObject({
      delivery: { state: 'canceled' },
      detail: { reason: 'endpoint_disabled' },
    });

    const active = await endpoint.update({ lifecycle: 'active' }, disabled.etag);
    expect(active.body).toMatchObject({ lifecycle: 'active', generation: 3 });
    expect(active.body).not.toHaveProperty('disabledAt');
    expect((await fetch(`${address}/fail`)).status).toBe(200);
    const after = await api.read.expectSuccess('listDeliveries', { query });
    expect(after.body.items.map((item) => item.state)).toEqual(['pending', 'canceled']);
  });
});

describe('a rotation', () => {
  it('a rotation of the signing secret shows the new secret once, and the old one signs until the overlap ends', async () => {
    const endpoint = await make();
    const key = randomUUID();
    const rotated = await endpoint.rotate({ overlapSeconds: 900 }, endpoint.etag, key);
    expect(rotated.status).toBe(200);
    expect(rotated.etag).toBe('"callback-endpoint-2"');
    const { signingSecret, endpoint: record } = rotated.body;
    expect(signingSecret).toMatchObject({ version: 2, previousVersion: 1, onlyShownOnce: true });
    expect(signingSecret?.secret).not.toBe(endpoint.body.signingSecret?.secret);
    const overlapMs =
      Date.parse(signingSecret?.overlapEndsAt ?? '') - Date.parse(signingSecret?.revealedAt ?? '');
    expect(overlapMs).toBe(900_000);
    expect(record.secret).toEqual({
      version: 2,
      issuedAt: signingSecret?.revealedAt,
      previousVersion: 1,
      overlapEndsAt: signingSecret?.overlapEndsAt,
    });
    expect(await endpoint.read()).toEqual(record);
    const again = await endpoint.rotate({ overlapSeconds: 900 }, endpoint.etag, key);
    expect(again.status).toBe(200);
    expect(again.body).toEqual({ endpoint: record, replayed: true });
  });

  it('a rotation of the signing secret without an overlap ends the old secret at once', async () => {
    const endpoint = await make();
    const { body } = await endpoint.rotate({ overlapSeconds: 0 });
    expect(body.signingSecret).not.toHaveProperty('overlapEndsAt');
    expect(body.endpoint.secret).toEqual({ version: 2, issuedAt: body.signingSecret?.revealedAt });
  });

  it('the overlap of a signing secret is 300 seconds by default, and 0 to 900 when stated', async () => {
    const endpoint = await make();
    const { body } = await endpoint.rotate({});
    const { overlapEndsAt = '', revealedAt = '' } = body.signingSecret ?? {};
    expect(Date.parse(overlapEndsAt) - Date.parse(revealedAt)).toBe(300_000);
    for (const overlapSeconds of [-1, 901, 1.5, '300']) {
      const { problem } = await endpoint.rotate({ overlapSeconds }, '"callback-endpoint-2"');
      expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'overlapSeconds' }] });
    }
  });

  it('of two rotations with the same ETag one succeeds', async () => {
    const endpoint = await make();
    const { params } = endpoint;
    expect((await api.manage.call('rotateSigningSecret', { params, body: {} })).problem?.status).toBe(428);
    const answers = await Promise.all([endpoint.rotate({}), endpoint.rotate({}), endpoint.rotate({})]);
    expect(answers.map((answer) => answer.status).toSorted()).toEqual([200, 412, 412]);
    expect((await endpoint.read()).secret?.version).toBe(2);
  });

  it('a rotation of the signing secret after version 65535 is refused with a sentence', async () => {
    const endpoint = await make();
    await api.pool.query('update signing_secrets set version = 65534 where endpoint_id = $1', [
      endpoint.params.endpointId,
    ]);
    const last = await endpoint.rotate({});
    expect(last.body.signingSecret).toMatchObject({ version: 65_535, previousVersion: 65_534 });
    expect((await endpoint.rotate({}, last.etag)).problem).toMatchObject({
      status: 409,
      code: 'service.conflict',
    });
  });
});
