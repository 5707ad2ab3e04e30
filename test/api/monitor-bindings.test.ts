// Callback bindings over HTTP: where alerts go, or why they can't.
// Holds: getMonitorBinding, setMonitorBinding.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;

beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const HOOK = 'http://127.0.0.1:9';

async function make(callback?: Record<string, unknown>) {
  return await api.manage.expectSuccess('createMonitor', { body: { name: 'Job', callback } });
}

const read = async (monitorId: string) =>
  await api.read.expectSuccess('getMonitorBinding', { params: { monitorId } });

async function bind(
  monitorId: string,
  ifMatch: string,
  body: Record<string, unknown>,
  idempotencyKey?: string,
) {
  return await api.manage.call('setMonitorBinding', { params: { monitorId }, ifMatch, body, idempotencyKey });
}

describe('resolution', () => {
  it("a binding to the organization's default shows that there is none, then shows the endpoint", async () => {
    const { body } = await make();
    expect((await read(body.monitorId)).body).toEqual({
      binding: { kind: 'organization_default' },
      unavailableReason: 'no_organization_default',
    });
    const made = await api.manage.expectSuccess('createCallback', {
      body: { alias: 'main', url: `${HOOK}/d` },
    });
    const endpointId = made.body.endpoint.id;
    await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId } });
    expect((await read(body.monitorId)).body.target).toEqual({
      endpointId,
      alias: 'main',
      kind: 'webhook',
      url: HOOK,
    });
    await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId: null } });
  });

  it('a named binding follows its alias through absence, use, disabling and removal', async () => {
    const { body } = await make({ kind: 'named', alias: 'oncall' });
    const reason = async () => (await read(body.monitorId)).body.unavailableReason;
    expect(await reason()).toBe('alias_not_found');
    const made = await api.manage.expectSuccess('createCallback', {
      body: { alias: 'oncall', url: `${HOOK}/o` },
    });
    const params = { endpointId: made.body.endpoint.id };
    expect(await reason()).toBeUndefined();
    const disabled = await api.manage.expectSuccess('updateCallback', {
      params,
      ifMatch: '"callback-endpoint-1"',
      body: { lifecycle: 'disabled' },
    });
    expect(await reason()).toBe('endpoint_disabled');
    await api.manage.expectSuccess('deleteCallback', { params, ifMatch: disabled.etag });
    expect(await reason()).toBe('endpoint_removed');
  });

  it('a disabled binding has neither target nor reason', async () => {
    const { body } = await make({ kind: 'disabled' });
    expect((await read(body.monitorId)).body).toEqual({ binding: { kind: 'disabled' } });
  });
});

describe('inline', () => {
  it('an inline binding shows its secret once, keeps it under another URL, and rotates a lost one', async () => {
    const { body, etag } = await make();
    const key = randomUUID();
    const inline = { binding: { kind: 'inline', url: `${HOOK}/1` } };
    const first = await bind(body.monitorId, etag, inline, key);
    expect(first.body).toMatchObject({
      ...inline,
      replayed: false,
      target: { kind: 'webhook', url: `${HOOK}/1` },
    });
    expect(first.body.signingSecret).toMatchObject({ version: 1, onlyShownOnce: true });
    const replay = await bind(body.monitorId, etag, inline, key);
    expect(replay.body.replayed).toBe(true);
    expect(replay.body.signingSecret).toBeUndefined();

    const moved = await bind(body.monitorId, first.etag, { binding: { kind: 'inline', url: `${HOOK}/2` } });
    expect(moved.body.signingSecret).toBeUndefined();
    expect(moved.body.target).toMatchObject({ endpointId: first.body.target?.endpointId, url: `${HOOK}/2` });
    expect(moved.etag).toBe('"configuration-3"');
    const same = await bind(body.monitorId, moved.etag, { binding: { kind: 'inline', url: `${HOOK}/2` } });
    expect(same.etag).toBe(moved.etag);
    const rotated = await bind(body.monitorId, moved.etag, {
      binding: { kind: 'inline', url: `${HOOK}/2` },
      rotateSigningSecret: true,
    });
    expect(rotated.body.signingSecret).toMatchObject({ version: 2, previousVersion: 1 });
    expect(rotated.body.signingSecret?.secret).not.toBe(first.body.signingSecret?.secret);

    const monitor = await api.manage.expectSuccess('getMonitor', { params: { monitorId: body.monitorId } });
    expect(monitor.body.callback).toEqual({ kind: 'inline', url: `${HOOK}/2` });
    const left = await bind(body.monitorId, rotated.etag, { binding: { kind: 'disabled' } });
    expect(left.body.binding).toEqual({ kind: 'disabled' });
    const listed = await api.manage.expectSuccess('listCallbacks');
    expect(listed.body.items.filter((item) => item.url?.startsWith(`${HOOK}/2`))).toEqual([]);
  });

  it('the database holds URL and secret of an inline binding only sealed', async () => {
    const { body } = await make({ kind: 'inline', url: `${HOOK}/hidden-path` });
    await bind(body.monitorId, '"configuration-1"', { binding: { kind: 'disabled' } });
    const { rows } = await api.pool.query<{ text: string }>(
      `select (select string_agg(c::text, ' ') from monitor_changes c) || (select string_agg(e::text, ' ')
         from callback_endpoints e) || (select string_agg(m::text, ' ') from monitors m) as text`,
    );
    expect(rows[0]?.text).not.toContain('hidden-path');
  });

  it('an inline binding to a private address is refused with the path of the field', async () => {
    const { body, etag } = await make();
    const { problem } = await bind(body.monitorId, etag, {
      binding: { kind: 'inline', url: 'https://10.1.2.3/' },
    });
    expect(problem).toMatchObject({
      code: 'service.callback_destination_rejected',
      fieldErrors: [{ path: 'binding.url' }],
    });
  });
});

describe('set', () => {
  it('setting a binding raises the version once and writes a change record', async () => {
    const { body, etag } = await make();
    const named = { binding: { kind: 'named', alias: 'pager' } };
    const first = await bind(body.monitorId, etag, named);
    expect(first.etag).toBe('"configuration-2"');
    expect((await bind(body.monitorId, first.etag, named)).etag).toBe('"configuration-2"');
    const params = { monitorId: body.monitorId };
    const changes = (await api.read.expectSuccess('listMonitorChanges', { params })).body.items;
    expect(changes.map((change) => [change.kind, change.configurationVersion])).toEqual([
      ['configuration', 2],
      ['configuration', 1],
    ]);
  });

  it("setting a binding needs the monitor's current ETag and the right to manage", async () => {
    const { body } = await make();
    const params = { monitorId: body.monitorId };
    const request = { params, body: { binding: { kind: 'disabled' } } };
    expect((await api.manage.call('setMonitorBinding', request)).status).toBe(428);
    expect((await bind(body.monitorId, '"configuration-7"', request.body)).status).toBe(412);
    const reader = await api.read.call('setMonitorBinding', { ...request, ifMatch: '"configuration-1"' });
    expect(reader.status).toBe(403);
    const rotate = { binding: { kind: 'disabled' }, rotateSigningSecret: true };
    const { problem } = await bind(body.monitorId, '"configuration-1"', rotate);
    expect(problem?.fieldErrors?.[0]?.path).toBe('rotateSigningSecret');
  });
});
