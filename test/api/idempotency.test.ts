// One key, one effect (docs/contract/calls.md): concurrent duplicates on one replica and on two, and replays.
import { randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { canonicalJson, fingerprintOf } from '../../src/service/calls/idempotency.ts';
import { createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { callUntilDone } from '../support/call-until-done.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const countProjects = async (name: string) => {
  const { rows } = await api.pool.query<{ count: number }>(
    'select count(*)::int as count from projects where name = $1',
    [name],
  );
  return rows[0]?.count;
};

describe('an idempotency key', () => {
  it('a thousand concurrent duplicates at two replicas have one effect', async () => {
    const replica = await api.startReplica();
    const elsewhere = createApiClient({ url: replica.url, token: api.tokens.owner });
    const request = { body: { name: `duplicates-${randomUUID()}` }, idempotencyKey: randomUUID() };
    const clients = Array.from({ length: 1_000 }, (_, index) => (index % 2 === 0 ? api.owner : elsewhere));
    const answers = await callUntilDone(clients, 'createProject', request);
    const created = answers.filter(({ status }) => status === 201);
    const replayed = answers.filter(({ status }) => status === 200);
    expect([created.length, replayed.length]).toEqual([1, 999]);
    expect(await countProjects(request.body.name)).toBe(1);
    for (const { body, etag } of replayed) {
      expect(body).toEqual(created[0]?.body);
      expect(etag).toBe(created[0]?.etag);
    }
  });

  it('a missing or malformed Idempotency-Key is refused', async () => {
    const body = { name: 'x' };
    for (const idempotencyKey of [null, '', ' ', '-a', 'a b', 'ü', 'a'.repeat(256)]) {
      const headers = idempotencyKey === 'ü' ? { 'idempotency-key': '\u00fc' } : undefined;
      const key = headers ? null : idempotencyKey;
      const { problem } = await api.owner.call('createProject', { body, idempotencyKey: key, headers });
      expect(problem).toMatchObject({ status: 400, code: 'service.validation_failed' });
      expect(problem?.fieldErrors?.map(({ path }) => path)).toContain('Idempotency-Key');
    }
    const longest = `a${'._~:/+-'.repeat(36)}`.padEnd(255, 'z');
    await api.owner.expectSuccess('createProject', { body: { name: 'longest' }, idempotencyKey: longest });
  });

  it('a used key is refused for another request of its scope, and free in another scope', async () => {
    const idempotencyKey = randomUUID();
    await api.owner.expectSuccess('createProject', { body: { name: 'first' }, idempotencyKey });
    const other = await api.owner.call('createProject', { body: { name: 'second' }, idempotencyKey });
    expect(other.problem).toMatchObject({
      status: 409,
      code: 'service.idempotency_conflict',
      retryable: false,
      remediation: [{ code: 'use_new_key', documentation: '/docs#the-examples' }],
    });
    const elsewhere = await api.owner.call('createCredential', {
      body: { name: 'x', preset: 'read' },
      idempotencyKey,
    });
    // The keys of credentials belong to the project, those of projects to the organization.
    expect(elsewhere.status).toBe(201);
  });

  it('no body, an empty object and empty gzip are one request where the body is optional', async () => {
    const made = await api.owner.expectSuccess('createCredential', { body: { name: 'x', preset: 'read' } });
    const { credentialId } = made.body.credential;
    const call = { params: { credentialId }, ifMatch: made.etag, idempotencyKey: randomUUID() };
    expect((await api.owner.expectSuccess('rotateCredential', call)).body.replayed).toBe(false);
    const gzip = { rawBody: gzipSync(''), headers: { 'content-encoding': 'gzip' } };
    for (const body of [{ body: {} }, gzip]) {
      const again = await api.owner.expectSuccess('rotateCredential', { ...call, ...body });
      expect(again.body).toMatchObject({ replayed: true, credential: { version: 2 } });
      expect(again.body.secret).toBeUndefined();
    }
  });

  it('the same key in another project is another key', async () => {
    const idempotencyKey = randomUUID();
    const body = { name: 'same key', preset: 'read' };
    const here = await api.owner.expectSuccess('createCredential', { body, idempotencyKey });
    const there = await api.other.owner.expectSuccess('createCredential', { body, idempotencyKey });
    expect([here.status, there.status]).toEqual([201, 201]);
    expect(there.body.credential.credentialId).not.toBe(here.body.credential.credentialId);
  });

  it('a refusal is not kept: the same call succeeds later', async () => {
    const request = { body: { name: `later-${randomUUID()}` }, idempotencyKey: randomUUID() };
    const first = await api.owner.expectSuccess('createProject', { body: request.body });
    expect((await api.owner.call('createProject', request)).status).toBe(409);
    const rename = { params: { projectId: first.body.projectId }, body: { name: randomUUID() } };
    await api.owner.expectSuccess('updateProject', { ...rename, ifMatch: first.etag });
    expect((await api.owner.call('createProject', request)).status).toBe(201);
  });

  it('a key is new again after 24 hours', async () => {
    const idempotencyKey = randomUUID();
    await api.owner.expectSuccess('createProject', { body: { name: `old-${randomUUID()}` }, idempotencyKey });
    await api.pool.query(
      "update idempotency_records set created_at = created_at - interval '24 hours 1 second' where key = $1",
      [idempotencyKey],
    );
    const again = await api.owner.call('createProject', { body: { name: randomUUID() }, idempotencyKey });
    expect(again.status).toBe(201);
  });

  it('a duplicate of a call that runs at another replica gets a retryable conflict', async () => {
    const request = { body: { name: `slow-${randomUUID()}` }, idempotencyKey: randomUUID() };
    // The first call, at another replica: it has the key and has not committed.
    const first = await api.pool.connect();
    await first.query('begin');
    await first.query(
      `insert into idempotency_records (scope_id, key, fingerprint, status, created_at)
       values ($1, $2, '\\x00', 0, clock_timestamp())`,
      [api.organizationId, request.idempotencyKey],
    );
    const duplicate = await api.owner.call('createProject', request);
    expect(duplicate.problem).toMatchObject({ status: 409, code: 'service.conflict', retryable: true });
    expect(duplicate.headers.get('retry-after')).toBe('1');
    await first.query('rollback'); // it died
    first.release();
    expect((await api.owner.call('createProject', request)).status).toBe(201);
  });

  it('of several different requests with one key one succeeds', async () => {
    const idempotencyKey = randomUUID();
    const names = Array.from({ length: 8 }, () => `race-${randomUUID()}`);
    const answers = await Promise.all(
      names.map((name) => api.owner.call('createProject', { body: { name }, idempotencyKey })),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    const refused = answers.filter(({ status }) => status !== 201);
    for (const { problem } of refused) expect(problem?.code).toBe('service.idempotency_conflict');
    const counts = await Promise.all(names.map(countProjects));
    expect(counts.reduce((sum, count) => (sum ?? 0) + (count ?? 0), 0)).toBe(1);
  });
});

describe('a fingerprint', () => {
  const of = (body: unknown, query: [string, string][] = []) =>
    fingerprintOf({ method: 'POST', path: '/v1/x', query, body }).toString('hex');

  it('a fingerprint is the same for the same JSON, however it is written', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const value: unknown = JSON.parse(text);
        const reversed: unknown = JSON.parse(text, (_key, inner: unknown) =>
          typeof inner === 'object' && inner !== null && !Array.isArray(inner)
            ? Object.fromEntries(Object.entries(inner).reverse())
            : inner,
        );
        expect(of(reversed)).toBe(of(value));
        expect(JSON.parse(canonicalJson(value))).toEqual(value);
      }),
    );
  });

  it('a fingerprint differs by body, by query, and without a body', () => {
    const different = [of({ a: 1 }), of({ a: '1' }), of([1, 2]), of([2, 1]), of({}), of(undefined), of(null)];
    expect(new Set(different).size).toBe(different.length);
    expect(of({}, [['a', '1&b=2']])).not.toBe(
      of({}, [
        ['a', '1'],
        ['b', '2'],
      ]),
    );
    expect(
      of({}, [
        ['b', '2'],
        ['a', '1'],
      ]),
    ).toBe(
      of({}, [
        ['a', '1'],
        ['b', '2'],
      ]),
    );
  });
});
