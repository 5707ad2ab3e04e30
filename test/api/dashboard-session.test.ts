// The cookie of the dashboard (docs/contract/dashboard.md, "Sign-in"): who gets it, and where it counts.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/domain/id.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  // The tests come by loopback, as through a forwarded port.
  api = await openApiFixture({ config: { publicUrl: 'https://beatkeeper.example.com' } });
});
afterAll(async () => {
  await api?.close();
});

const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' };

const signIn = (token: unknown, headers: Record<string, string> = SAME_ORIGIN) =>
  fetch(`${api.url}/dashboard/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ token }),
  });

const cookieOf = (answer: Response) => answer.headers.get('set-cookie') ?? '';

async function openSession(token: string): Promise<string> {
  const answer = await signIn(token);
  expect(answer.status).toBe(204);
  return cookieOf(answer).split(';')[0] ?? '';
}

const call = (path: string, init: RequestInit & { headers: Record<string, string> }) =>
  fetch(`${api.url}${path}`, { ...init, redirect: 'error' });

describe('the sign-in', () => {
  it('a token becomes a cookie that scripts and other sites do not get', async () => {
    const answer = await signIn(api.tokens.owner);
    expect(answer.status).toBe(204);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(cookieOf(answer)).toMatch(
      /^beatkeeper_session=[^;]+; Max-Age=\d+; Path=\/; HttpOnly; SameSite=Strict$/,
    );
  });

  it('the cookie lives no longer than its token, and 12 h at most', async () => {
    const short = await api.issuer.sign({
      subject: 'short',
      claims: { role: 'viewer', org: 'acme' },
      lifeSeconds: 120,
    });
    const seconds = Number(/Max-Age=(\d+)/.exec(cookieOf(await signIn(short)))?.[1]);
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(120);
    expect(cookieOf(await signIn(api.tokens.read))).toContain('Max-Age=43200;');
  });

  it.each([
    ['another site', { 'sec-fetch-site': 'cross-site' }],
    ['another host of the site', { 'sec-fetch-site': 'same-site' }],
    ['an address that was typed', { 'sec-fetch-site': 'none' }],
    ['a program', {}],
  ])('%s signs nobody in or out', async (_, headers) => {
    const refused = await signIn(api.tokens.owner, headers);
    expect(refused.status).toBe(403);
    expect(cookieOf(refused)).toBe('');
    const kept = await call('/dashboard/session', { method: 'DELETE', headers });
    expect(kept.status).toBe(403);
    expect(cookieOf(kept)).toBe('');
  });

  it('a token that the API does not take gets no cookie', async () => {
    const wrong = await signIn(`bkc_${'0'.repeat(32)}_${'a'.repeat(43)}`);
    expect(wrong.status).toBe(401);
    expect(cookieOf(wrong)).toBe('');
    expect((await signIn('x y')).status).toBe(401);
  });

  it.each([[undefined], [''], [7], ['a'.repeat(8_193)]])(
    'refuses the token %o by its field',
    async (token) => {
      const answer = await signIn(token);
      expect(answer.status).toBe(400);
      expect(await answer.json()).toMatchObject({ fieldErrors: [{ path: 'token' }] });
    },
  );

  it('a token that no browser would keep is refused with a sentence', async () => {
    const long = await api.issuer.sign({
      subject: 'long',
      claims: { role: 'viewer', org: 'acme', groups: Array.from({ length: 300 }, () => 'a-group') },
    });
    const answer = await signIn(long);
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      fieldErrors: [{ path: 'token', message: 'Must have at most 3800 characters: browsers keep no more.' }],
    });
  });

  it('DELETE clears the cookie', async () => {
    const answer = await call('/dashboard/session', { method: 'DELETE', headers: SAME_ORIGIN });
    expect(answer.status).toBe(204);
    expect(cookieOf(answer)).toMatch(/^beatkeeper_session=; Max-Age=0; Path=\//);
  });
});

describe('the session', () => {
  it('says who is signed in, and never the token', async () => {
    const cookie = await openSession(api.tokens.owner);
    const answer = await call('/dashboard/session', { headers: { cookie, ...SAME_ORIGIN } });
    const text = await answer.text();
    expect(JSON.parse(text)).toEqual({
      kind: 'session',
      role: 'owner',
      display: 'owner of acme (owner@acme)',
      organization: 'acme',
    });
    expect(text).not.toContain(api.tokens.owner);
  });

  it('of a credential it names the project', async () => {
    const cookie = await openSession(api.tokens.read);
    const answer = await call('/dashboard/session', { headers: { cookie, ...SAME_ORIGIN } });
    expect(await answer.json()).toMatchObject({
      kind: 'credential',
      role: 'viewer',
      projectId: api.projectId,
    });
  });

  it('a reader with a cookie may read and not write', async () => {
    const cookie = await openSession(api.tokens.viewer);
    const headers = { cookie, ...SAME_ORIGIN, 'service-project': 'main', 'x-beatkeeper-dashboard': '1' };
    expect((await call('/v1/monitors', { headers })).status).toBe(200);
    const refused = await call('/v1/monitors', {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json', 'idempotency-key': newId('req') },
      body: JSON.stringify({ name: 'x', intervalSeconds: 3_600 }),
    });
    expect(refused.status).toBe(403);
  });
});

describe('the cookie', () => {
  it.each([
    ['from another site', { 'sec-fetch-site': 'cross-site' }],
    ['from another host of the site', { 'sec-fetch-site': 'same-site' }],
    ['from a program', {}],
  ])('%s counts as absent', async (_, headers) => {
    const cookie = await openSession(api.tokens.manage);
    expect((await call('/v1/monitors', { headers: { cookie, ...headers } })).status).toBe(401);
    expect((await call('/dashboard/session', { headers: { cookie, ...headers } })).status).toBe(401);
  });

  it('a write without the header of the dashboard counts as one without a cookie', async () => {
    const cookie = await openSession(api.tokens.manage);
    const create = (headers: Record<string, string>) =>
      call('/v1/monitors', {
        method: 'POST',
        headers: {
          cookie,
          ...SAME_ORIGIN,
          'content-type': 'application/json',
          'idempotency-key': newId('req'),
          ...headers,
        },
        body: JSON.stringify({ name: newId('mon'), intervalSeconds: 3_600 }),
      });
    expect((await create({})).status).toBe(401);
    expect((await create({ 'x-beatkeeper-dashboard': '0' })).status).toBe(401);
    expect((await create({ 'x-beatkeeper-dashboard': '1' })).status).toBe(201);
  });

  it('Authorization wins over it, also where that is refused', async () => {
    const cookie = await openSession(api.tokens.manage);
    const headers = { cookie, ...SAME_ORIGIN, authorization: 'Bearer bkc_wrong' };
    expect((await call('/v1/monitors', { headers })).status).toBe(401);
    const read = { ...headers, authorization: `Bearer ${api.tokens.read}` };
    const answer = await call('/dashboard/session', { headers: read });
    expect(await answer.json()).toMatchObject({ role: 'viewer' });
  });

  it('a cookie of another name or with a broken value is none', async () => {
    const cookie = `__Host-${await openSession(api.tokens.manage)}`;
    expect((await call('/v1/monitors', { headers: { cookie, ...SAME_ORIGIN } })).status).toBe(401);
    const broken = 'beatkeeper_session=%E0%A4%A';
    expect((await call('/v1/monitors', { headers: { cookie: broken, ...SAME_ORIGIN } })).status).toBe(401);
  });
});
