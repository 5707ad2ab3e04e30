// Callback endpoints: create, read, list, remove. The default and the rights have files of their own.
// Holds: listCallbacks, createCallback, getCallback, deleteCallback.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { seedCredential } from '../support/seed.ts';
import { cancelAll } from '../support/sweeper-fixture.ts';

const URL_OF_RECEIVER = 'http://127.0.0.1:9/hook';
let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const newAlias = () => `a-${randomUUID()}`;
const create = (body: Record<string, unknown> = {}) =>
  api.manage.call('createCallback', { body: { alias: newAlias(), url: URL_OF_RECEIVER, ...body } });

describe('a new endpoint', () => {
  it('a new endpoint is answered with its secret, and read back without it', async () => {
    const alias = newAlias();
    const made = await create({ alias });
    expect(made.status).toBe(201);
    expect(made.etag).toBe('"callback-endpoint-1"');
    const { endpoint, replayed, signingSecret } = made.body;
    expect(replayed).toBe(false);
    expect(endpoint).toEqual({
      id: expect.stringMatching(/^cb_[0-9a-f]{32}$/),
      projectId: api.projectId,
      alias,
      kind: 'webhook',
      url: URL_OF_RECEIVER,
      lifecycle: 'active',
      isOrganizationDefault: false,
      generation: 1,
      createdAt: endpoint.updatedAt,
      updatedAt: expect.any(String),
      secret: { version: 1, issuedAt: endpoint.createdAt },
    });
    expect(signingSecret).toEqual({
      secret: expect.stringMatching(/^sigcb_v1_[A-Za-z0-9_-]{43}$/),
      version: 1,
      revealedAt: endpoint.createdAt,
      onlyShownOnce: true,
    });
    const read = await api.read.expectSuccess('getCallback', { params: { endpointId: endpoint.id } });
    expect(read.body).toEqual({ ...endpoint, url: new URL(URL_OF_RECEIVER).origin });
    expect(read.etag).toBe(made.etag);
  });

  it('one Idempotency-Key creates one endpoint and shows its secret once', async () => {
    const body = { alias: newAlias(), url: URL_OF_RECEIVER };
    const idempotencyKey = randomUUID();
    const first = await api.manage.call('createCallback', { body, idempotencyKey });
    const again = await api.manage.call('createCallback', { body, idempotencyKey });
    expect(again.status).toBe(200);
    expect(again.etag).toBe(first.etag);
    expect(again.body).toEqual({ endpoint: first.body.endpoint, replayed: true });
    const other = await api.manage.call('createCallback', {
      body: { ...body, alias: newAlias() },
      idempotencyKey,
    });
    expect(other.problem).toMatchObject({ status: 409, code: 'service.idempotency_conflict' });
  });

  it('an endpointId that a caller has chosen is never free again', async () => {
    const endpointId = `mine-${randomUUID()}`;
    const made = await create({ endpointId });
    expect(made.body.endpoint.id).toBe(endpointId);
    expect((await create({ endpointId })).problem).toMatchObject({ status: 409, code: 'service.conflict' });
    await api.manage.expectSuccess('deleteCallback', { params: { endpointId }, ifMatch: made.etag });
    expect((await create({ endpointId })).problem).toMatchObject({ status: 409, code: 'service.conflict' });
  });

  it('an alias is unique in a project, and free after the removal of its endpoint', async () => {
    const alias = newAlias();
    const made = await create({ alias });
    expect((await create({ alias })).problem).toMatchObject({ status: 409, code: 'service.conflict' });
    const elsewhere = await api.other.manage.call('createCallback', {
      body: { alias, url: URL_OF_RECEIVER },
    });
    expect(elsewhere.status).toBe(201);
    const params = { endpointId: made.body.endpoint.id };
    await api.manage.expectSuccess('deleteCallback', { params, ifMatch: made.etag });
    expect((await create({ alias })).status).toBe(201);
  });

  it('of many endpoints created at once with one alias one succeeds', async () => {
    const alias = newAlias();
    const answers = await Promise.all(Array.from({ length: 8 }, () => create({ alias })));
    expect(answers.map((answer) => answer.status).toSorted()).toEqual([
      201, 409, 409, 409, 409, 409, 409, 409,
    ]);
    const { rows } = await api.pool.query('select from callback_endpoints where alias = $1', [alias]);
    expect(rows).toHaveLength(1);
  });

  it.each([
    ['no destination', { url: undefined }, 'url'],
    ['an ftp URL', { url: 'ftp://receiver.example/' }, 'url'],
    ['a user in the URL', { url: 'https://user:word@receiver.example/' }, 'url'],
    ['a fragment', { url: 'https://receiver.example/#part' }, 'url'],
    ['a URL of 513 characters', { url: `https://receiver.example/${'a'.repeat(488)}` }, 'url'],
    ['plain http to the public', { url: 'http://192.0.2.1/' }, 'url'],
    ['an alias with a blank', { alias: 'two words' }, 'alias'],
    ['a destination of another kind', { relayGroup: { notifierId: 'n' } }, 'relayGroup'],
    ['an unknown field', { colour: 'red' }, 'colour'],
  ])('a new endpoint with %s is refused', async (_what, body, path) => {
    const { problem } = await create(body);
    expect(problem).toMatchObject({ status: 400, code: 'service.validation_failed' });
    expect(problem?.fieldErrors?.map((error) => error.path)).toContain(path);
  });

  it.each([
    'https://10.0.0.1/',
    'https://169.254.169.254/latest/',
    'https://[fd00::1]/',
    'https://0x7f.1.invalid/',
  ])('a new endpoint at %s is refused', async (url) => {
    const { problem } = await create({ url });
    expect(problem).toMatchObject({
      status: 400,
      code: 'service.callback_destination_rejected',
      remediation: [{ documentation: '/docs/quickstart#3-create-a-callback-endpoint' }],
    });
    expect(problem?.fieldErrors?.[0]?.path).toBe('url');
  });

  it('an endpoint of a relay kind is refused without a relay', async () => {
    const group = { kind: 'relay_group', url: undefined, relayGroup: { notifierId: 'n' } };
    const person = { kind: 'relay_subscriber', url: undefined, relay: { actorId: 'a', notifierId: 'n' } };
    for (const body of [group, person]) {
      expect((await create(body)).problem).toMatchObject({
        status: 409,
        code: 'service.relay_not_configured',
      });
    }
  });

  it('the database holds address and secret of an endpoint only sealed', async () => {
    const url = `https://127.0.0.1:9/${randomUUID()}`;
    const made = await create({ url });
    const { rows } = await api.pool.query<{ row: string }>(
      `select e::text || encode(e.url_box, 'escape') || s::text || encode(s.secret_box, 'escape') as row
       from callback_endpoints e join signing_secrets s using (project_id, endpoint_id) where endpoint_id = $1`,
      [made.body.endpoint.id],
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]?.row).not.toContain(url.slice(-36));
    expect(rows[0]?.row).not.toContain(made.body.signingSecret?.secret.slice(9));
    const records = await api.pool.query<{ row: string }>(
      "select r::text || encode(body_box, 'escape') as row from idempotency_records r where body_box is not null",
    );
    expect(records.rows.length).toBeGreaterThan(0);
    for (const { row } of records.rows) {
      expect(row).not.toContain('sigcb_v1_');
      expect(row).not.toContain(url.slice(-36));
    }
  });
});

describe('the list', () => {
  it('the list shows endpoints newest first, in pages, without removed and inline ones', async () => {
    const { pool } = api;
    const { body: project } = await api.owner.expectSuccess('createProject', {
      body: { name: randomUUID() },
    });
    const { projectId } = project;
    const client = api.manage.as(await seedCredential(pool, { projectId, preset: 'manage' }));
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) {
      const body = { alias: `page-${n}`, url: URL_OF_RECEIVER };
      ids.unshift((await client.expectSuccess('createCallback', { body })).body.endpoint.id);
    }
    const inline = { name: 'inline', callback: { kind: 'inline', url: URL_OF_RECEIVER } };
    await client.expectSuccess('createMonitor', { body: inline });
    const [newest = ''] = ids.splice(0, 1);
    await client.expectSuccess('deleteCallback', {
      params: { endpointId: newest },
      ifMatch: '"callback-endpoint-1"',
    });
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await client.expectSuccess('listCallbacks', { query: { limit: 3, cursor } });
      seen.push(...page.body.items.map((item) => item.id));
      cursor = page.body.nextCursor;
    } while (cursor);
    expect(seen).toEqual(ids);
  });

  it('the list of endpoints refuses a cursor that it did not make', async () => {
    for (const cursor of ['zzz', Buffer.from('["callbacks",1e99,"x"]').toString('base64url')]) {
      const { problem } = await api.read.call('listCallbacks', { query: { cursor } });
      expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'cursor' }] });
    }
  });
});

describe('removal', () => {
  it('removing an endpoint erases its secrets, cancels its deliveries and shows in bindings', async () => {
    const alias = newAlias();
    const made = await create({ alias });
    const endpointId = made.body.endpoint.id;
    const monitor = await api.manage.expectSuccess('createMonitor', {
      body: { name: 'bound', callback: { kind: 'named', alias } },
    });
    const { monitorId } = monitor.body;
    expect((await fetch(`${api.url}${new URL(monitor.body.publishUrl ?? '').pathname}/fail`)).status).toBe(
      200,
    );
    const pending = await api.read.expectSuccess('listDeliveries', { query: { endpointId } });
    expect(pending.body.items).toMatchObject([{ event: 'incident.opened', state: 'pending' }]);
    const stale = await api.manage.call('deleteCallback', {
      params: { endpointId },
      ifMatch: '"callback-endpoint-2"',
    });
    expect(stale.problem).toMatchObject({ status: 412 });

    const removed = await api.manage.call('deleteCallback', { params: { endpointId }, ifMatch: made.etag });
    expect(removed.status).toBe(204);
    for (const id of ['getCallback', 'testCallback'] as const) {
      expect((await api.manage.call(id, { params: { endpointId } })).problem?.status).toBe(404);
    }
    const again = await api.manage.call('deleteCallback', { params: { endpointId }, ifMatch: made.etag });
    expect(again.problem?.status).toBe(404);
    const binding = await api.read.expectSuccess('getMonitorBinding', { params: { monitorId } });
    expect(binding.body).toEqual({
      binding: { kind: 'named', alias },
      unavailableReason: 'endpoint_removed',
    });
    await cancelAll(api.pool);
    const canceled = await api.read.expectSuccess('listDeliveries', { query: { endpointId } });
    expect(canceled.body.items).toMatchObject([{ state: 'canceled' }]);
    const incidentId = canceled.body.items[0]?.incidentId ?? '';
    const timeline = await api.read.expectSuccess('getIncidentTimeline', { params: { incidentId } });
    expect(timeline.body.items.at(-1)).toMatchObject({
      type: 'delivery',
      actor: { kind: 'api_credential' },
      delivery: { endpointId, state: 'canceled' },
      detail: { reason: 'endpoint_removed' },
    });
    const { rows } = await api.pool.query(
      `select from signing_secrets where endpoint_id = $1
       union all select from callback_endpoints where endpoint_id = $1 and url_box is not null`,
      [endpointId],
    );
    expect(rows).toHaveLength(0);
  });
});
