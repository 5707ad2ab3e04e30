// Authentication: who is admitted, with which rights, into which project (docs/contract/tenancy.md).
import { createHmac } from 'node:crypto';
import { UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contractOperations } from '../../src/contract/operations/operations.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { seedCredential } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const statusWith = async (token: string | undefined) =>
  (await api.anonymous.as(token, api.projectName).call('listProjects')).status;
const statusOfHeader = async (authorization: string) =>
  (await fetch(`${api.url}/v1/projects`, { headers: { authorization } })).status;

describe('an API credential', () => {
  it('a call without a valid API credential is refused', async () => {
    expect(await statusWith(api.tokens.read)).toBe(200);
    expect(await statusWith(undefined)).toBe(401);
    const answer = await api.anonymous.call('listProjects');
    expect(answer.problem).toMatchObject({ code: 'service.authentication_required', retryable: false });
    expect(answer.headers.get('www-authenticate')).toBe('Bearer');
  });

  it('a credential with a wrong secret, id or form is refused, always with the same words', async () => {
    const [, id, secret] = /^bkc_([^_]+)_(.+)$/.exec(api.tokens.read) ?? [];
    const unknownId = `bkc_${'0'.repeat(32)}_${secret}`;
    const wrongSecret = `bkc_${id}_${'A'.repeat(43)}`;
    const tokens = [unknownId, wrongSecret, `bkc_${id}_`, 'bkc_', `bkc_${id}`, `${api.tokens.read}A`, 'x'];
    const details = new Set<string | undefined>();
    for (const token of tokens) {
      const { status, problem } = await api.anonymous.as(token).call('listProjects');
      expect([token, status]).toEqual([token, 401]);
      details.add(problem?.detail);
    }
    expect(details.size).toBe(1);
  });

  it('only Authorization: Bearer <token> is read, the scheme in any case', async () => {
    const token = api.tokens.read;
    expect(await statusOfHeader(`bearer ${token}`)).toBe(200);
    for (const value of [
      token,
      `Basic ${token}`,
      `Bearer`,
      `Bearer ${token} x`,
      `Bearer ${token},${token}`,
    ]) {
      expect([value, await statusOfHeader(value)]).toEqual([value, 401]);
    }
  });

  it('an expired credential is refused', async () => {
    const expiresMs = Date.now() + 3_600_000;
    const token = await seedCredential(api.pool, { projectId: api.projectId, preset: 'read', expiresMs });
    expect(await statusWith(token)).toBe(200);
    await api.pool.query('update credentials set expires_at = clock_timestamp() where credential_id = $1', [
      token.split('_')[1],
    ]);
    await waitFor(async () => (await statusWith(token)) === 401);
  });

  it('lastUsedAt of a credential is written at most once a minute', async () => {
    const token = await seedCredential(api.pool, { projectId: api.projectId, preset: 'read' });
    const lastUsed = async () => {
      const { rows } = await api.pool.query<{ last_used_at: Date | null }>(
        'select last_used_at from credentials where credential_id = $1',
        [token.split('_')[1]],
      );
      return rows[0]?.last_used_at?.getTime();
    };
    expect(await lastUsed()).toBeUndefined();
    await statusWith(token);
    await waitFor(async () => (await lastUsed()) !== undefined);
    const first = await lastUsed();
    for (let call = 0; call < 20; call += 1) await statusWith(token);
    expect(await lastUsed()).toBe(first);
  });

  it('a credential acts in its own project, named by id or name, and in no other', async () => {
    const named = (project: string) => api.manage.as(api.tokens.manage, project).call('listProjects');
    for (const project of [api.projectId, api.projectName, ' MAIN ']) {
      expect((await named(project)).status).toBe(200);
    }
    const made = await api.owner.expectSuccess('createProject', { body: { name: 'Größe' } });
    for (const project of [made.body.projectId, 'nothing', api.other.projectId, '%', "' or 1=1"]) {
      expect((await named(project)).problem).toMatchObject({ status: 404, code: 'service.not_found' });
    }
  });
});

describe('presets and roles', () => {
  const operations = Object.values(contractOperations());
  const clients = () => ({
    read: api.read,
    viewer: api.viewer,
    manage: api.manage,
    member: api.member,
    owner: api.owner,
    operator: api.operator,
  });
  const allowed: Record<string, string[]> = {
    read: ['read', 'viewer', 'manage', 'member', 'owner', 'operator'],
    manage: ['manage', 'member', 'owner', 'operator'],
    session: ['viewer', 'member', 'owner'],
    owner: ['owner'],
    owner_or_operator: ['owner', 'operator'],
    operator: ['operator'],
  };

  it.each(operations.map((one) => [one.operationId, one] as const))(
    'preset and role decide who may call %s',
    async (id, spec) => {
      const params = { monitorId: 'none', endpointId: 'none', incidentId: 'none', deliveryId: 'none' };
      const more = { projectId: 'none', credentialId: 'none' };
      for (const [name, client] of Object.entries(clients())) {
        const answer = await client.call(id as 'getMonitor', { params: { ...params, ...more } });
        const mayCall = allowed[spec.preset]?.includes(name);
        // An admitted call fails later: it has no body, or names no resource. Without the right what is not there is 404.
        const isHidden = /\{(?!credentialId|operatorId)/.test(spec.path);
        const refusal = isHidden ? 404 : 403;
        expect([name, mayCall ? answer.status !== 403 : answer.status]).toEqual([
          name,
          mayCall ? true : refusal,
        ]);
      }
    },
  );
});

describe('a session token', () => {
  it('a session acts by its role, in the project that Service-Project names', async () => {
    const missing = await api.owner.as(api.tokens.owner, null).call('listCredentials');
    expect(missing.problem).toMatchObject({ status: 400, code: 'service.validation_failed' });
    expect(missing.problem?.fieldErrors?.[0]?.path).toBe('Service-Project');
    expect((await api.owner.as(api.tokens.owner, api.projectId).call('listCredentials')).status).toBe(200);
    expect((await api.owner.as(api.tokens.owner, 'nothing').call('listCredentials')).status).toBe(404);
    const foreign = api.owner.as(api.tokens.owner, api.other.projectId);
    expect((await foreign.call('listCredentials')).status).toBe(404);
  });

  it('Service-Project names a project outside ASCII as UTF-8', async () => {
    const { body } = await api.owner.expectSuccess('createProject', { body: { name: 'Zürich' } });
    const header = Buffer.from(body.name, 'utf8').toString('latin1');
    expect((await api.owner.as(api.tokens.owner, header).call('listCredentials')).status).toBe(200);
  });

  it('a session token with any fault is refused', async () => {
    const claims = { role: 'owner', org: 'acme' };
    const good = await api.issuer.sign({ claims });
    expect(await statusWith(good)).toBe(200);
    const [header, payload, signature] = good.split('.');
    const changed = Buffer.from(JSON.stringify({ ...claims, iss: api.issuer.url, sub: 'x' })).toString(
      'base64url',
    );
    const now = Math.floor(Date.now() / 1_000);
    const named = { ...claims, iss: api.issuer.url, aud: 'beatkeeper', sub: 'x', exp: now + 600 };
    const bad: Record<string, string> = {
      expired: await api.issuer.sign({ claims, lifeSeconds: -60 }),
      'issued more than a day ago': await api.issuer.sign({ claims, ageSeconds: 86_400 + 60 }),
      'issued in the future': await api.issuer.sign({ claims, ageSeconds: -60 }),
      'of no known age': await api.issuer.sign({ claims, ageSeconds: null }),
      'not yet valid': await api.issuer.sign({ claims: { ...claims, nbf: now + 600 } }),
      'another issuer': await api.issuer.sign({ claims, issuer: 'https://elsewhere.example' }),
      'another audience': await api.issuer.sign({ claims, audience: 'something-else' }),
      'a changed payload': `${header}.${changed}.${signature}`,
      'no signature': `${header}.${payload}.`,
      'no algorithm': new UnsecuredJWT(named).encode(),
      'the public key as a shared secret': hmacToken(named, JSON.stringify(api.issuer.publicJwk())),
      'a subject that cannot be kept': await api.issuer.sign({ claims, subject: 'a\0b' }),
      'half a character for a subject': await api.issuer.sign({ claims, subject: 'a\ud800' }),
      'an organization that cannot be': await api.issuer.sign({ claims: { ...claims, org: 'acme\0' } }),
      'not a token': 'a.b.c',
      'only dots': '..',
    };
    for (const [name, token] of Object.entries(bad)) {
      expect([name, await statusWith(token)]).toEqual([name, 401]);
    }
  });

  it('a session without a role, or of an unknown organization, is refused', async () => {
    const without = [
      { org: 'acme' },
      { role: 'king', org: 'acme' },
      { role: 'owner', org: 'nobody' },
      // The issuer has an organization of its own, which is that of no token here.
      { role: 'owner' },
    ];
    for (const claims of without) {
      expect([claims, await statusWith(await api.issuer.sign({ claims }))]).toEqual([claims, 403]);
    }
  });

  it('a session is refused unless its claim names one known organization', async () => {
    const inList = await api.issuer.sign({ claims: { role: 'owner', org: ['umbrella'] } });
    const { body } = await api.anonymous.as(inList).call('listProjects');
    expect(body.items.map(({ projectId }) => projectId)).toEqual([api.other.projectId]);
    for (const org of [['umbrella', 'acme'], [], {}, { umbrella: {} }, 7, true, null, '']) {
      const token = await api.issuer.sign({ claims: { role: 'owner', org } });
      expect([org, await statusWith(token)]).toEqual([org, 403]);
    }
  });

  it("a token signed with the issuer's new key works at once, and ends those of a key that is gone", async () => {
    expect(await statusWith(api.tokens.owner)).toBe(200);
    await api.issuer.rotateKey();
    const token = await api.issuer.sign({ claims: { role: 'owner', org: 'acme' } });
    await waitFor(async () => (await statusWith(token)) === 200);
    expect(await statusWith(api.tokens.owner)).toBe(401); // verified before, and not yet expired
  });

  it('a session gets a 503 while its issuer does not answer', async () => {
    api.issuer.broken = true;
    try {
      await api.issuer.rotateKey();
      const token = await api.issuer.sign({ claims: { role: 'owner', org: 'acme' } });
      await waitFor(async () => (await statusWith(token)) === 503);
      const { problem } = await api.anonymous.as(token).call('listProjects');
      expect(problem).toMatchObject({ code: 'service.temporarily_unavailable', retryable: true });
      api.issuer.broken = false;
      await waitFor(async () => (await statusWith(token)) === 200);
    } finally {
      api.issuer.broken = false;
    }
  });
});

function hmacToken(payload: object, secret: string): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${encode({ alg: 'HS256', kid: api.issuer.publicJwk().kid })}.${encode(payload)}`;
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}
