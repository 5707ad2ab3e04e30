// What refusals and answers tell a caller who reads them without the documentation: which field, and what to do
// (docs/contract/calls.md). On the plan free, whose limits are low.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture({ plan: 'free' });
});
afterAll(async () => {
  await api?.close();
});

const make = async (body: Record<string, unknown> = {}) =>
  await api.manage.expectSuccess('createMonitor', {
    body: { name: 'Backup', intervalSeconds: 300, ...body },
  });

describe('a missing body', () => {
  it('a rotation without a body says that it needs a body, and {} is one', async () => {
    const made = await api.manage.expectSuccess('createCallback', {
      body: { alias: 'on-call', url: 'http://127.0.0.1:9/' },
    });
    const request = { params: { endpointId: made.body.endpoint.id }, ifMatch: made.etag };
    const { problem } = await api.manage.call('rotateSigningSecret', request);
    expect(problem).toMatchObject({
      status: 400,
      detail: expect.stringContaining('body: The request has no body'),
      fieldErrors: [{ code: 'required', path: 'body', message: expect.stringContaining('{}') }],
    });
    expect((await api.manage.call('rotateSigningSecret', { ...request, body: {} })).status).toBe(200);
  });

  it('a fault of the body as a whole has the path body', async () => {
    for (const rawBody of ['[]', '{', '"text"']) {
      const { problem } = await api.manage.call('createMonitor', { rawBody, headers: json });
      expect(problem?.fieldErrors?.map(({ path }) => path)).toEqual(['body']);
      expect(problem?.detail).toContain('body');
    }
  });
});

const json = { 'content-type': 'application/json' };

describe('a field that is changed elsewhere', () => {
  it('a patch of what it cannot change names the operation that does, or says that nothing does', async () => {
    const { body, etag } = await make();
    const messageFor = async (patch: object) => {
      const request = { params: { monitorId: body.monitorId }, ifMatch: etag, body: { patch } };
      const { problem } = await api.manage.call('updateMonitor', request);
      expect(problem?.fieldErrors?.map(({ path }) => path)).toEqual(
        Object.keys(patch).map((key) => `patch.${key}`),
      );
      return problem?.fieldErrors?.map(({ message }) => message).join(' ');
    };
    expect(await messageFor({ callback: { kind: 'disabled' } })).toContain(
      'PUT /v1/monitors/{monitorId}/callback',
    );
    expect(await messageFor({ jurisdiction: 'eu' })).toContain('the jurisdiction of a monitor cannot change');
    expect(await messageFor({ lifecycle: 'paused' })).toContain('POST /v1/monitors/{monitorId}/lifecycle');
    expect(await messageFor({ colour: 'red', callback: {} })).toMatch(/not known here\..*PUT/);
  });

  it('a field of the patch beside the patch is told to go inside', async () => {
    const { body, etag } = await make();
    const request = { params: { monitorId: body.monitorId }, ifMatch: etag, body: { name: 'New' } };
    const { problem } = await api.manage.call('updateMonitor', request);
    expect(problem?.fieldErrors).toContainEqual(
      expect.objectContaining({ path: 'name', message: 'State it inside of patch.' }),
    );
  });

  it('rules at the creation of a monitor are sent to the patch, the kind of an endpoint cannot change', async () => {
    const rules = await api.manage.call('createMonitor', { body: { name: 'a', measurements: {} } });
    expect(rules.problem?.fieldErrors?.[0]).toMatchObject({
      path: 'measurements',
      message: expect.stringContaining('PATCH /v1/monitors/{monitorId}'),
    });
    const kind = await api.manage.call('updateCallback', {
      params: { endpointId: 'x' },
      ifMatch: '"callback-endpoint-1"',
      body: { kind: 'webhook' },
    });
    expect(kind.problem?.fieldErrors?.[0]?.message).toContain('the kind of an endpoint cannot change');
  });
});

describe('a limit of the plan', () => {
  const refused = (path: string, words: RegExp) => ({
    status: 403,
    code: 'service.plan_limit_reached',
    detail: expect.stringMatching(words),
    fieldErrors: [{ code: 'plan_limit', path, message: expect.stringMatching(words) }],
  });
  const words = /^The plan Free allows no interval shorter than 300 seconds, and this one has 60\./;

  it('an interval or a schedule below the minimum names its field, at the creation and in a patch', async () => {
    const short = await api.manage.call('createMonitor', { body: { name: 'a', intervalSeconds: 60 } });
    expect(short.problem).toMatchObject(refused('intervalSeconds', words));
    const cron = { name: 'a', schedule: { cron: '* * * * *' } };
    expect((await api.manage.call('createMonitor', { body: cron })).problem).toMatchObject(
      refused('schedule', words),
    );
    const { body, etag } = await make();
    const patched = await api.manage.call('updateMonitor', {
      params: { monitorId: body.monitorId },
      ifMatch: etag,
      body: { patch: { intervalSeconds: 60 } },
    });
    expect(patched.problem).toMatchObject(refused('patch.intervalSeconds', words));
  });

  it('a beat with too many measurements names them', async () => {
    const { body } = await make();
    const { pathname } = new URL(body.publishUrl ?? '');
    const answer = await fetch(`${api.url}${pathname}`, {
      method: 'POST',
      headers: { ...json, accept: 'application/json' },
      body: JSON.stringify({ measurements: { a: 1, b: 2, c: 3, d: 4, e: 5 } }),
    });
    expect(await answer.json()).toMatchObject(refused('measurements', /allows 4 measurements in a beat/));
  });

  it('a limit that no field of the request exceeds is said in words, without an identifier', async () => {
    const create = () =>
      api.manage.call('createCallback', { body: { alias: `a-${randomUUID()}`, url: 'http://127.0.0.1:9/' } });
    while ((await create()).status === 201);
    const { problem } = await create();
    expect(problem?.detail).toMatch(/^The plan Free allows 2 callback endpoints in the organization/);
    expect(problem?.detail).not.toContain('_');
  });
});

describe('a monitor whose alerts go nowhere', () => {
  it('its creation says why, on a replay too, and a binding that leads somewhere is not mentioned', async () => {
    const reasonOf = async (callback?: object) => {
      const request = { idempotencyKey: randomUUID(), body: { name: 'a', callback } };
      const first = await api.manage.expectSuccess('createMonitor', request);
      const replay = await api.manage.expectSuccess('createMonitor', request);
      expect(replay.body).toEqual({ ...first.body, replayed: true });
      return first.body.binding;
    };
    expect(await reasonOf()).toEqual({ unavailableReason: 'no_organization_default' });
    expect(await reasonOf({ kind: 'named', alias: 'nobody' })).toEqual({
      unavailableReason: 'alias_not_found',
    });
    expect(await reasonOf({ kind: 'disabled' })).toBeUndefined();
    expect(await reasonOf({ kind: 'named', alias: 'on-call' })).toBeUndefined();
  });
});

describe('the rotation of a credential', () => {
  it('says when the overlap ends, on a replay too, and nothing where the old secret ends at once', async () => {
    const { body, etag } = await api.owner.expectSuccess('createCredential', {
      body: { name: 'deploys', preset: 'read' },
    });
    const params = { credentialId: body.credential.credentialId };
    const request = { params, ifMatch: etag, body: { overlapSeconds: 600 }, idempotencyKey: randomUUID() };
    const before = Date.now();
    const rotated = await api.owner.expectSuccess('rotateCredential', request);
    const endsMs = Date.parse(rotated.body.overlapEndsAt ?? '') - 600_000;
    expect(endsMs).toBeGreaterThan(before - 5_000);
    expect(endsMs).toBeLessThan(Date.now() + 5_000);
    const replay = await api.owner.expectSuccess('rotateCredential', request);
    expect(replay.body).toMatchObject({ replayed: true, overlapEndsAt: rotated.body.overlapEndsAt });
    expect(replay.body.secret).toBeUndefined();
    const atOnce = await api.owner.expectSuccess('rotateCredential', { params, ifMatch: rotated.etag });
    expect(atOnce.body.overlapEndsAt).toBeUndefined();
  });
});

describe('an address of beats with a suffix that is not known', () => {
  it('names the known ones, whether the address exists or not', async () => {
    const { body } = await make();
    const { pathname } = new URL(body.publishUrl ?? '');
    for (const path of [pathname, `/ping/${randomUUID()}`]) {
      const answer = await fetch(`${api.url}${path}/failed`);
      expect(answer.status).toBe(404);
      expect(await answer.text()).toContain('/start, /fail, /log, or an exit status from /0 to /255');
    }
  });
});
