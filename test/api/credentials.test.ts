// API credentials: shown once, rotated with an overlap, revoked everywhere within five seconds.
// Holds: listCredentials, createCredential, getCredential, revokeCredential, rotateCredential.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const statusOf = async (token: string | undefined, url = api.url) =>
  (await createApiClient({ url, token }).call('listProjects')).status;

async function makeCredential(body: Record<string, unknown> = {}) {
  const made = await api.owner.expectSuccess('createCredential', {
    body: { name: 'made', preset: 'read', ...body },
  });
  const { credentialId } = made.body.credential;
  return { params: { credentialId }, secret: made.body.secret, etag: made.etag, body: made.body };
}

describe('a credential', () => {
  it('a new credential shows its secret once and works at once', async () => {
    const request = { body: { name: ' Deploys ', preset: 'manage', scopes: ['usage:read'] } };
    const idempotencyKey = randomUUID();
    const made = await api.owner.expectSuccess('createCredential', { ...request, idempotencyKey });
    expect(made.status).toBe(201);
    expect(made.body.secret).toMatch(/^bkc_[0-9a-f]{32}_[A-Za-z0-9_-]{43}$/);
    expect(made.body).toMatchObject({
      replayed: false,
      credential: { name: 'Deploys', preset: 'manage', scopes: ['usage:read'], version: 1 },
    });
    expect(made.etag).toBe('"credential-1"');
    expect(await statusOf(made.body.secret)).toBe(200);

    const replay = await api.owner.expectSuccess('createCredential', { ...request, idempotencyKey });
    expect(replay.status).toBe(200);
    expect(replay.body).toEqual({ credential: made.body.credential, replayed: true });

    const params = { credentialId: made.body.credential.credentialId };
    const read = await api.owner.expectSuccess('getCredential', { params });
    expect(JSON.stringify(read.body)).not.toContain(made.body.secret?.slice(-43));
    const { createdAt } = made.body.credential;
    const { rows } = await api.pool.query('select created_at from credentials where credential_id = $1', [
      params.credentialId,
    ]);
    expect([read.body.createdAt, rows[0]?.created_at.toISOString()]).toEqual([createdAt, createdAt]);
  });

  it('the database holds a digest of the secret and nowhere the secret', async () => {
    const { secret } = await makeCredential();
    const part = secret?.slice(-43);
    for (const table of ['credentials', 'credential_addresses', 'idempotency_records']) {
      const { rows } = await api.pool.query(`select t::text as text from ${table} t`);
      expect(JSON.stringify(rows)).not.toContain(part);
    }
  });

  it('an expiry in the past is refused', async () => {
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const { body } = await makeCredential({ expiresAt });
    expect(body.credential.expiresAt).toBe(expiresAt);
    const past = { name: 'x', preset: 'read', expiresAt: '2020-01-01T00:00:00Z' };
    const refused = await api.owner.call('createCredential', { body: past });
    expect(refused.problem?.fieldErrors?.[0]?.path).toBe('expiresAt');
  });

  it('an expired credential is not rotated, because its new secret would not work either', async () => {
    const { params, etag } = await makeCredential({ expiresAt: '9999-12-31T23:59:59.999Z' });
    const { credentialId } = params;
    await api.pool.query(`update credentials set expires_at = clock_timestamp() where credential_id = $1`, [
      credentialId,
    ]);
    const { problem } = await api.owner.call('rotateCredential', { params, ifMatch: etag, body: {} });
    expect(problem).toMatchObject({ status: 409, code: 'service.conflict' });
    expect((await api.owner.expectSuccess('getCredential', { params })).body.version).toBe(1);
  });

  it('a credential with an invalid field is refused', async () => {
    const good = { name: 'x', preset: 'read' };
    const bad: [string, Record<string, unknown>][] = [
      ['name', { ...good, name: '' }],
      ['preset', { ...good, preset: 'owner' }],
      ['scopes.0', { ...good, scopes: ['everything'] }],
      ['expiresAt', { ...good, expiresAt: 'tomorrow' }],
      ['extra', { ...good, extra: 1 }],
    ];
    for (const [path, body] of bad) {
      const { problem } = await api.owner.call('createCredential', { body });
      expect([path, problem?.fieldErrors?.map((one) => one.path)]).toEqual([path, [path]]);
    }
  });

  it('a rotation without an overlap ends the old secret at once', async () => {
    const { params, secret, etag } = await makeCredential();
    expect(await statusOf(secret)).toBe(200);
    const rotated = await api.owner.expectSuccess('rotateCredential', { params, ifMatch: etag });
    expect(rotated.etag).toBe('"credential-2"');
    expect(await statusOf(rotated.body.secret)).toBe(200);
    expect(await statusOf(secret)).toBe(401);
    const stale = await api.owner.call('rotateCredential', { params, ifMatch: etag });
    expect(stale.problem?.code).toBe('service.precondition_failed');
  });

  it('both secrets work in the overlap of a rotation, then only the new one', async () => {
    const { params, secret, etag } = await makeCredential();
    const rotated = await api.owner.expectSuccess('rotateCredential', {
      params,
      ifMatch: etag,
      body: { overlapSeconds: 3_600 },
    });
    expect([await statusOf(secret), await statusOf(rotated.body.secret)]).toEqual([200, 200]);
    await api.pool.query(
      'update credentials set previous_ends_at = clock_timestamp() where credential_id = $1',
      [params.credentialId],
    );
    await waitFor(async () => (await statusOf(secret)) === 401);
    expect(await statusOf(rotated.body.secret)).toBe(200);
    for (const overlapSeconds of [-1, 86_401, 1.5, '2']) {
      const body = { overlapSeconds };
      const refused = await api.owner.call('rotateCredential', { params, ifMatch: rotated.etag, body });
      expect(refused.problem?.fieldErrors?.[0]?.path).toBe('overlapSeconds');
    }
  });

  it('the new secret works at once at a replica that has cached the old one', async () => {
    const replica = await api.startReplica();
    const { params, secret, etag } = await makeCredential();
    expect(await statusOf(secret, replica.url)).toBe(200);
    const rotated = await api.owner.expectSuccess('rotateCredential', { params, ifMatch: etag });
    expect(await statusOf(rotated.body.secret, replica.url)).toBe(200);
    expect(await statusOf(secret, replica.url)).toBe(401);
  });

  it('a revoked credential ends here at once and at another replica within five seconds, and is still readable', async () => {
    const replica = await api.startReplica();
    const { params, secret, etag } = await makeCredential();
    expect([await statusOf(secret), await statusOf(secret, replica.url)]).toEqual([200, 200]);
    expect((await api.owner.call('revokeCredential', { params })).status).toBe(428);
    expect((await api.owner.call('revokeCredential', { params, ifMatch: etag })).status).toBe(204);
    expect(await statusOf(secret)).toBe(401);
    const revokedAt = performance.now();
    let acceptedMs = 0;
    await waitFor(async () => {
      const begunMs = performance.now() - revokedAt;
      if ((await statusOf(secret, replica.url)) === 401) return true;
      acceptedMs = begunMs;
      return false;
    });
    // However long a call takes: none is accepted that began later.
    expect(acceptedMs).toBeLessThan(5_000);
    const read = await api.owner.expectSuccess('getCredential', { params });
    expect(read.body.revokedAt).toBeTruthy();
    const rotate = { params, ifMatch: read.etag };
    expect((await api.owner.call('rotateCredential', rotate)).problem?.code).toBe('service.conflict');
    await api.pool.query(
      "update credentials set revoked_at = revoked_at - interval '30 days' where credential_id = $1",
      [params.credentialId],
    );
    expect((await api.owner.call('getCredential', { params })).status).toBe(404);
  });

  it('a credential is a 404 for another organization', async () => {
    const { params, etag } = await makeCredential();
    expect((await api.other.owner.call('getCredential', { params })).status).toBe(404);
    expect((await api.other.owner.call('revokeCredential', { params, ifMatch: etag })).status).toBe(404);
    expect((await api.other.owner.call('rotateCredential', { params, ifMatch: etag })).status).toBe(404);
  });
});

describe('the list of credentials', () => {
  it('the list of credentials is newest first and complete, also with many of one moment', async () => {
    const { body } = await api.owner.expectSuccess('createProject', { body: { name: 'many credentials' } });
    const owner = api.owner.as(api.tokens.owner, body.projectId);
    const made: string[] = [];
    for (let index = 0; index < 7; index += 1) {
      const name = `credential ${index}`;
      const one = await owner.expectSuccess('createCredential', { body: { name, preset: 'read' } });
      made.unshift(one.body.credential.credentialId);
    }
    await api.pool.query(
      "update credentials set created_at = date_trunc('minute', created_at) where project_id = $1",
      [body.projectId],
    );
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await owner.expectSuccess('listCredentials', { query: { limit: 3, cursor } });
      seen.push(...page.body.items.map(({ credentialId }) => credentialId));
      cursor = page.body.nextCursor;
    } while (cursor !== undefined);
    expect(seen).toEqual(made);
  });

  it('the list of credentials refuses cursors that it did not make', async () => {
    const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const hostile = [
      encode(['projects', api.projectId]),
      encode(['credentials', 1]),
      encode(['credentials', -1, 'x']),
      encode(['credentials', 1, 'a\u0000b']),
      encode(['credentials', 1e300, 'x']),
      encode(['credentials', 1, '\ud800']),
      encode({ list: 'credentials' }),
      'abc',
      '0',
      'W10',
      "1'--",
      '../..',
      'a'.repeat(513),
      '',
    ];
    for (const cursor of hostile) {
      const { problem } = await api.owner.call('listCredentials', { query: { cursor } });
      expect([cursor, problem?.status]).toEqual([cursor, 400]);
      expect(problem?.fieldErrors?.[0]?.path).toBe('cursor');
    }
  });
});
