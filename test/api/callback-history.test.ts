// The change records of callback endpoints: who changed what, and never a secret.
// Holds: listCallbackChanges.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type Receiver, startReceiver, status } from '../support/receiver.ts';

let api: ApiFixture;
let receiver: Receiver;
let count = 0;

beforeAll(async () => {
  api = await openApiFixture({ config: { allowedPrivateDestinations: '127.0.0.0/8' } });
  receiver = await startReceiver(status(410));
});
afterAll(async () => {
  await api?.close();
  await receiver?.close();
});

async function make(url = 'http://127.0.0.1:9/services/s3cret') {
  const alias = `history-${++count}`;
  const { body, etag, headers } = await api.manage.expectSuccess('createCallback', { body: { alias, url } });
  const params = { endpointId: body.endpoint.id };
  const changes = async () => (await api.read.expectSuccess('listCallbackChanges', { params })).body.items;
  return { alias, params, etag, requestId: headers.get('x-request-id'), changes, ...params };
}

it('the changes of an endpoint are listed newest first with actor and request, its creation and removal included', async () => {
  const { alias, params, etag, requestId, changes } = await make();
  const disabled = await api.member.expectSuccess('updateCallback', {
    params,
    ifMatch: etag,
    body: { lifecycle: 'disabled', alias: `${alias}-b` },
  });
  const enabled = await api.manage.expectSuccess('updateCallback', {
    params,
    ifMatch: disabled.etag,
    body: { lifecycle: 'active' },
  });
  const rotated = await api.owner.expectSuccess('rotateSigningSecret', {
    params,
    ifMatch: enabled.etag,
    body: {},
  });
  await api.operator.expectSuccess('deleteCallback', { params, ifMatch: rotated.etag });
  const url = { to: 'http://127.0.0.1:9' };
  const listed = await changes();
  expect(listed).toMatchObject([
    {
      kind: 'lifecycle',
      action: 'remove',
      configurationVersion: 5,
      lifecycleFrom: 'active',
      lifecycleTo: 'removed',
      actor: { kind: 'operator', id: 'operator@acme' },
    },
    { kind: 'configuration', action: 'rotate_secret', configurationVersion: 4, actor: { id: 'owner@acme' } },
    { kind: 'lifecycle', action: 'enable', lifecycleFrom: 'disabled', lifecycleTo: 'active' },
    {
      kind: 'lifecycle',
      action: 'disable',
      configurationVersion: 2,
      alias: { from: alias, to: `${alias}-b` },
      actor: { kind: 'session', id: 'member@acme' },
      sourceRequestId: disabled.headers.get('x-request-id'),
    },
    {
      kind: 'configuration',
      action: 'create',
      configurationVersion: 1,
      alias: { to: alias },
      url,
      actor: { kind: 'api_credential' },
      sourceRequestId: requestId,
    },
  ]);
  expect(Object.keys(listed[1] ?? {}).sort()).toEqual([
    'action',
    'actor',
    'configurationVersion',
    'kind',
    'occurredAt',
    'sourceRequestId',
  ]);
});

it('of an address the changes have the origin alone, whoever reads them, and never a secret', async () => {
  const { params, etag, changes } = await make();
  const first = await api.manage.expectSuccess('updateCallback', {
    params,
    ifMatch: etag,
    body: { url: 'http://127.0.0.1:9/services/0ther' },
  });
  const second = await api.manage.expectSuccess('updateCallback', {
    params,
    ifMatch: first.etag,
    body: { url: 'http://127.0.0.1:10/services/0ther' },
  });
  const { body } = await api.manage.expectSuccess('rotateSigningSecret', {
    params,
    ifMatch: second.etag,
    body: {},
  });
  const secret = body.signingSecret?.secret ?? '';
  expect(secret).not.toBe('');
  expect((await changes()).map(({ url }) => url)).toEqual([
    undefined,
    { from: 'http://127.0.0.1:9', to: 'http://127.0.0.1:10' },
    { from: 'http://127.0.0.1:9', to: 'http://127.0.0.1:9' },
    { to: 'http://127.0.0.1:9' },
  ]);
  for (const reader of [api.manage, api.owner, api.read]) {
    const text = JSON.stringify((await reader.expectSuccess('listCallbackChanges', { params })).body);
    for (const hidden of ['services', 's3cret', '0ther', secret]) expect(text).not.toContain(hidden);
  }
  const { rows } = await api.pool.query('select * from endpoint_changes where endpoint_id = $1', [
    params.endpointId,
  ]);
  expect(JSON.stringify(rows)).not.toMatch(/s3cret|0ther/);
});

it('a call that changes nothing, is refused or is repeated writes no change record', async () => {
  const { alias, params, etag, changes } = await make();
  await api.manage.expectSuccess('updateCallback', { params, ifMatch: etag, body: { alias } });
  const stale = { params, ifMatch: '"callback-endpoint-9"', body: { alias: 'other' } };
  expect((await api.manage.call('updateCallback', stale)).status).toBe(412);
  const rotation = { params, ifMatch: etag, body: {}, idempotencyKey: `rotate-${alias}` };
  await api.manage.expectSuccess('rotateSigningSecret', rotation);
  await api.manage.expectSuccess('rotateSigningSecret', rotation);
  expect((await changes()).map(({ action }) => action)).toEqual(['rotate_secret', 'create']);
});

it('the changes of a removed endpoint can be read until their time is over', async () => {
  const { params, etag, changes, endpointId } = await make();
  await api.manage.expectSuccess('deleteCallback', { params, ifMatch: etag });
  expect((await api.manage.call('getCallback', { params })).status).toBe(404);
  expect((await changes()).map(({ action }) => action)).toEqual(['remove', 'create']);
  const { rows } = await api.pool.query(
    `select count(*)::integer as count from endpoint_changes
     where endpoint_id = $1 and expires_at between now() + interval '29 days' and now() + interval '30 days'`,
    [endpointId],
  );
  expect(rows).toEqual([{ count: 2 }]);
  await api.pool.query('update endpoint_changes set expires_at = now() where endpoint_id = $1', [endpointId]);
  expect((await api.manage.call('listCallbackChanges', { params })).status).toBe(404);
});

it('a change of an endpoint and its record commit together: without the record nothing changes', async () => {
  const { params, etag, changes, endpointId } = await make();
  await api.pool.query(`
    create function refuse() returns trigger language plpgsql as 'begin raise exception ''no record''; end';
    create trigger refuse before insert on endpoint_changes for each row
      when (new.endpoint_id = '${endpointId}') execute function refuse()`);
  const { body: before } = await api.manage.expectSuccess('getCallback', { params });
  const target = { params, ifMatch: etag };
  for (const answer of [
    await api.manage.call('updateCallback', { ...target, body: { lifecycle: 'disabled' } }),
    await api.manage.call('rotateSigningSecret', { ...target, body: {} }),
    await api.manage.call('deleteCallback', target),
    await api.owner.call('setDefaultCallback', { body: { endpointId } }),
  ]) {
    expect(answer.status).toBe(500);
  }
  expect((await api.manage.expectSuccess('getCallback', { params })).body).toEqual(before);
  await api.pool.query('drop trigger refuse on endpoint_changes');
  expect((await changes()).map(({ action }) => action)).toEqual(['create']);
});

it('changes of an endpoint come in pages', async () => {
  const { alias, params, etag } = await make();
  let ifMatch = etag;
  for (const ending of ['b', 'c']) {
    const body = { alias: `${alias}-${ending}` };
    ifMatch = (await api.manage.expectSuccess('updateCallback', { params, ifMatch, body })).etag;
  }
  const first = await api.read.expectSuccess('listCallbackChanges', { params, query: { limit: 2 } });
  expect(first.body.items.map((item) => item.configurationVersion)).toEqual([3, 2]);
  const query = { limit: 2, cursor: first.body.nextCursor };
  const second = await api.read.expectSuccess('listCallbackChanges', { params, query });
  expect(second.body.items.map((item) => item.configurationVersion)).toEqual([1]);
  expect(second.body.nextCursor).toBeUndefined();
});

it('changes of an endpoint that the caller may not see, or that never was, are a 404', async () => {
  const { params } = await make();
  expect((await api.other.manage.call('listCallbackChanges', { params })).status).toBe(404);
  expect((await api.other.owner.call('listCallbackChanges', { params })).status).toBe(404);
  const nowhere = { params: { endpointId: 'cb_nowhere' } };
  expect((await api.read.call('listCallbackChanges', nowhere)).status).toBe(404);
});

it('a change of the default is recorded at the endpoint that has it and at the one that had it, also in another project', async () => {
  const own = await make();
  const project = await api.owner.expectSuccess('createProject', { body: { name: 'history' } });
  const there = api.owner.as(api.tokens.owner, project.body.projectId);
  const body = { alias: 'theirs', url: 'http://127.0.0.1:9/x' };
  const made = await there.expectSuccess('createCallback', { body });
  const theirs = { endpointId: made.body.endpoint.id };
  await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId: own.endpointId } });
  await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId: own.endpointId } });
  await there.expectSuccess('setDefaultCallback', { body: theirs });
  await api.operator.expectSuccess('setDefaultCallback', { body: { endpointId: null } });
  const ownChanges = await own.changes();
  expect(ownChanges.map(({ action }) => action)).toEqual(['clear_default', 'set_default', 'create']);
  // The ETag stays as it was.
  expect(ownChanges.map(({ configurationVersion }) => configurationVersion)).toEqual([1, 1, 1]);
  const listed = await there.expectSuccess('listCallbackChanges', { params: theirs });
  expect(listed.body.items).toMatchObject([
    { action: 'clear_default', actor: { kind: 'operator' } },
    { action: 'set_default', actor: { kind: 'session', id: 'owner@acme' } },
    { action: 'create' },
  ]);
});

it('changes of the default that come at once leave one default, and a record of each that took effect', async () => {
  const endpoints = await Promise.all(Array.from({ length: 4 }, () => make()));
  await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId: null } });
  const wanted = [...endpoints, ...endpoints, ...endpoints];
  const answers = await Promise.all(
    wanted.map(({ endpointId }) => api.owner.call('setDefaultCallback', { body: { endpointId } })),
  );
  // Who loses against others again and again is told to try again.
  expect(answers.filter(({ status }) => status !== 200 && status !== 503)).toEqual([]);
  const balances = await Promise.all(
    endpoints.map(async ({ params, changes }) => {
      const actions = (await changes()).map(({ action }) => action);
      const set = actions.filter((action) => action === 'set_default').length;
      const cleared = actions.filter((action) => action === 'clear_default').length;
      const { body } = await api.read.expectSuccess('getCallback', { params });
      expect(set - cleared).toBe(body.isOrganizationDefault ? 1 : 0);
      return set - cleared;
    }),
  );
  expect(balances.filter((balance) => balance === 1)).toHaveLength(1);
});

it("a receiver's 410 to a test delivery is recorded as a change by Beatkeeper itself", async () => {
  const { params, changes } = await make(receiver.url);
  await api.manage.expectSuccess('testCallback', { params, body: {} });
  expect((await changes())[0]).toEqual({
    kind: 'lifecycle',
    action: 'disable',
    configurationVersion: 2,
    lifecycleFrom: 'active',
    lifecycleTo: 'disabled',
    reason: 'gone',
    actor: { kind: 'system', id: 'beatkeeper', display: 'Beatkeeper' },
    occurredAt: expect.any(String),
  });
});

it('the endpoint of an inline binding has no changes of its own: those of its monitor tell', async () => {
  const callback = { kind: 'inline' as const, url: 'http://127.0.0.1:9/inline' };
  const monitor = await api.manage.expectSuccess('createMonitor', { body: { name: 'inline', callback } });
  const params = { monitorId: monitor.body.monitorId };
  const { body } = await api.manage.expectSuccess('getMonitorBinding', { params });
  const endpointId = body.target?.endpointId ?? '';
  expect(endpointId).not.toBe('');
  expect((await api.manage.call('listCallbackChanges', { params: { endpointId } })).status).toBe(404);
});
