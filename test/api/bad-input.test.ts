// Hostile and broken requests: a problem body with the right status and code, never a 500, never a leak.
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Problem } from '../../src/contract/resources/problem.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { sendRaw } from '../support/raw-http.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

async function post(rawBody: string | Buffer, headers: Record<string, string> = {}): Promise<Problem> {
  const { problem } = await api.owner.call('createProject', { rawBody, headers });
  if (!problem) throw new Error('It was accepted.');
  return problem;
}

const request = (head: string, token = api.tokens.owner) =>
  `${head}\r\nhost: x\r\nauthorization: Bearer ${token}\r\nconnection: close\r\n\r\n`;
const statusLine = (answer: string) => answer.split('\r\n')[0];

describe('a body', () => {
  it.each([
    ['empty', ''],
    ['cut off', '{"name": "a'],
    ['not JSON', 'name=a'],
    ['with a trailing comma', '{"name": "a",}'],
    ['with a comment', '{"name": "a" /* b */}'],
    ['with two values', '{"name": "a"}{"name": "b"}'],
    ['with NaN', '{"name": NaN}'],
    ['a list', '[]'],
    ['a text', '"name"'],
    ['a number', '1'],
    ['null', 'null'],
    ['with a duplicate key', '{"name": "a", "name": "b"}'],
    ['with a duplicate key, once escaped', '{"name": "a", "n\\u0061me": "b"}'],
    ['with a key __proto__', '{"name": "a", "__proto__": {"x": 1}}'],
    ['with an unknown key', '{"name": "a", "constructor": {}}'],
    ['with NUL', '{"name": "a\\u0000b"}'],
    ['with NUL in a key', '{"name": "a", "b\\u0000": 1}'],
    ['with half of a surrogate pair', '{"name": "\\ud800"}'],
    ['with a raw control character', '{"name": "a\u0001"}'],
    ['with a number beyond a double', '{"name": 1e999}'],
    ['deep', `${'['.repeat(8_000)}${']'.repeat(8_000)}`],
    ['deep in objects', `${'{"a":'.repeat(100)}1${'}'.repeat(100)}`],
  ])('a body that is %s is refused', async (_name, text) => {
    const problem = await post(text);
    expect(problem).toMatchObject({ status: 400, code: 'service.validation_failed', retryable: false });
    expect(problem.fieldErrors?.length).toBeGreaterThan(0);
  });

  it('a field error names the place of the fault', async () => {
    const at = async (text: string) =>
      (await post(text)).fieldErrors?.map(({ path, code }) => `${path} ${code}`);
    expect(await at('{"name": "a", "b": {"c": [{"d": 1, "d": 2}]}}')).toEqual(['b.c.d duplicate_key']);
    expect(await at('{"name": "a\\u0000"}')).toEqual(['name invalid_character']);
    expect(await at('{"name": 1e999}')).toEqual(['name too_big']);
    expect(await at('{"a": [{"b": "\\u0000"}]}')).toEqual(['a.0.b invalid_character']);
    expect(await at('{}')).toEqual(['name required']);
  });

  it('a long place in a field error is cut between characters', async () => {
    for (const start of ['', 'a']) {
      const key = `${start}${'😀'.repeat(200)}`;
      for (const problem of [
        await post(JSON.stringify({ name: 'a', [key]: 1 })),
        await post(`{"name": "a", "${key}": 1, "${key}": 2}`),
        (await api.owner.call('listProjects', { query: { [key]: '1' } })).problem,
      ]) {
        const path = problem?.fieldErrors?.[0]?.path ?? '\ud800';
        expect([start, path.length, path.isWellFormed()]).toEqual([start, 256, true]);
        expect(problem?.detail.isWellFormed()).toBe(true);
      }
    }
  });

  it('a body may have the same key in two objects, and braces inside strings', async () => {
    const problem = await post('{"name": "{\\"a\\": [", "b": {"name": 1}, "c": [{"name": 1}, {"name": 2}]}');
    expect(problem.fieldErrors?.map(({ path }) => path)).toEqual(['b', 'c']);
  });

  it('a body that is not UTF-8 is refused', async () => {
    const latin1 = Buffer.from('{"name": "Grüße"}', 'latin1');
    expect(await post(latin1)).toMatchObject({
      status: 400,
      code: 'service.validation_failed',
      detail: 'The request is not valid. body: Must be UTF-8.',
    });
    const utf16 = Buffer.from('\ufeff{"name": "a"}', 'utf16le');
    expect((await post(utf16)).status).toBe(400);
    for (const charset of ['latin1', 'utf-16', 'iso-8859-1']) {
      const headers = { 'content-type': `application/json; charset=${charset}` };
      expect((await post('{"name": "a"}', headers)).code).toBe('service.unsupported_media_type');
    }
    const named = { 'content-type': 'Application/JSON ; Charset="UTF-8"' };
    const accepted = await api.owner.call('createProject', { rawBody: '{"name": "Größe"}', headers: named });
    expect(accepted.status).toBe(201);
  });

  it('a body of 16 KiB is taken, also in a gzip that is longer, and one byte more is refused', async () => {
    const padded = (length: number) => JSON.stringify({ name: 'a' }).padEnd(length, ' ');
    const create = async (rawBody: string | Buffer, headers = {}) =>
      (await api.owner.call('createProject', { rawBody, headers })).status;
    const gzip = { 'content-encoding': 'gzip' };
    const stored = (length: number) => gzipSync(padded(length), { level: 0 });
    expect(stored(16_384).length).toBeGreaterThan(16_384);
    // 409: the body is read, and the organization has that name.
    expect(await create(padded(16_384))).toBe(201);
    expect(await create(gzipSync(padded(16_384)), gzip)).toBe(409);
    expect(await create(stored(16_384), gzip)).toBe(409);
    for (const body of [gzipSync(padded(16_385)), stored(16_385), stored(32_768)]) {
      expect(await create(body, gzip)).toBe(413);
    }
    expect(await create(padded(16_385))).toBe(413);
  });

  it('a body over 16 KiB is refused, before and after decompression', async () => {
    const big = JSON.stringify({ name: 'a'.repeat(16_384) });
    expect(await post(big)).toMatchObject({ status: 413, code: 'service.payload_too_large' });
    const gzip = { 'content-encoding': 'gzip' };
    expect((await post(gzipSync(big), gzip)).status).toBe(413);
    const bomb = gzipSync(Buffer.alloc(8_000_000));
    expect(bomb.length).toBeLessThan(16_384);
    expect((await post(bomb, gzip)).status).toBe(413);
  });

  it('a body of unknown length is refused at 32 KiB at the latest', async () => {
    const chunk = `1000\r\n${'a'.repeat(4_096)}\r\n`;
    const head = [
      'POST /v1/projects HTTP/1.1',
      'host: x',
      `authorization: Bearer ${api.tokens.owner}`,
      'content-type: application/json',
      'transfer-encoding: chunked',
    ];
    const answer = await sendRaw(api.url, `${head.join('\r\n')}\r\n\r\n${chunk.repeat(9)}`, {
      until: (text) => text.includes('\r\n\r\n{'),
    });
    expect(statusLine(answer)).toContain('413');
  });

  it('a body is accepted plain or with gzip, and refused in another encoding', async () => {
    const gzip = { 'content-encoding': 'gzip' };
    const notGzip = await post('not gzip', gzip);
    expect(notGzip).toMatchObject({ status: 400, fieldErrors: [{ path: 'body', code: 'invalid_encoding' }] });
    const good = gzipSync('{"name": "zipped"}');
    expect((await post(good.subarray(0, -4), gzip)).status).toBe(400);
    expect((await post(gzipSync(good), gzip)).status).toBe(400); // zipped twice
    for (const encoding of ['deflate', 'br', 'zstd', 'gzip, gzip', 'x']) {
      const problem = await post(good, { 'content-encoding': encoding });
      expect([encoding, problem.code]).toEqual([encoding, 'service.unsupported_media_type']);
    }
    expect((await api.owner.call('createProject', { rawBody: good, headers: gzip })).status).toBe(201);
  });

  it('a body that is not application/json is refused', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx', 'x', '*/*']) {
      const headers = { 'content-type': type };
      const problem = await post('{"name": "a"}', headers);
      expect([type, problem.code]).toEqual([type, 'service.unsupported_media_type']);
      // Empty input is no body, and this operation needs none.
      const call = { params: { incidentId: 'none' }, rawBody: '', headers };
      if (type !== 'x') expect((await api.owner.call('resolveIncident', call)).status).toBe(404);
    }
  });
});

describe('an address', () => {
  it('an unknown address is a 404 with a problem body, also without a credential', async () => {
    for (const path of [
      '/nothing',
      '/v1',
      '/v1/',
      '/v1/nothing',
      '/v2/monitors',
      '/v1/projects/',
      '/V1/projects',
    ]) {
      const response = await fetch(`${api.url}${path}`);
      expect([path, response.status]).toEqual([path, 404]);
      expect(response.headers.get('content-type')).toContain('application/problem+json');
      expect(response.headers.get('x-request-id')).toBeTruthy();
    }
  });

  it('another method is a 405 that names the allowed methods', async () => {
    for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const response = await fetch(`${api.url}/v1/projects`, { method });
      expect([method, response.status]).toEqual([method, 405]);
      expect(response.headers.get('allow')).toBe('GET, HEAD, POST');
    }
    const one = await fetch(`${api.url}/v1/projects/${api.projectId}`, { method: 'POST' });
    expect(one.headers.get('allow')).toBe('GET, HEAD, PATCH');
    expect(await one.json()).toMatchObject({ code: 'service.method_not_allowed' });
    for (const method of ['PROPFIND', 'QUERY']) {
      expect(statusLine(await sendRaw(api.url, request(`${method} /v1/projects HTTP/1.1`)))).toContain('405');
    }
  });

  it('an unknown address is a 404 whatever body the request has', async () => {
    const bodies = [
      ['application/json', '{'],
      ['application/json', 'a'.repeat(20_000)],
      ['text/plain', 'a'],
      ['nonsense', 'a'],
    ] as const;
    for (const [type, body] of bodies) {
      const status = async (method: string, path: string) =>
        (await fetch(`${api.url}${path}`, { method, body, headers: { 'content-type': type } })).status;
      expect([type, await status('POST', '/v1/nothing')]).toEqual([type, 404]);
      expect([type, await status('PUT', '/v1/projects')]).toEqual([type, 405]);
      expect([type, await status('POST', '/docs')]).toEqual([type, 405]);
    }
  });

  it.each([
    ['GET /v1/projects/%zz HTTP/1.1', 400],
    ['GET /v1/projects/%ff HTTP/1.1', 400],
    ['GET /v1/projects/%00 HTTP/1.1', 400],
    ['GET /v1/projects/a%2Fb HTTP/1.1', 400],
    ['GET /v1/projects/..%2f..%2fetc HTTP/1.1', 400],
    ['GET /v1/projects/../projects HTTP/1.1', 404],
    ['GET /v1/./projects HTTP/1.1', 404],
    ['GET //v1/projects HTTP/1.1', 404],
    ['GET /v1/projects?limit=%zz HTTP/1.1', 400],
    ['GET /v1/projects?limit=%00 HTTP/1.1', 400],
    ['GET /v1/projects?limit=1&limit=2 HTTP/1.1', 400],
    ['GET /v1/projects?__proto__=1 HTTP/1.1', 400],
    ['GET /v1/projects?unknown=1 HTTP/1.1', 400],
    ['GET /v1/projects?limit=0 HTTP/1.1', 400],
    ['GET /v1/projects?limit=201 HTTP/1.1', 400],
    ['GET /v1/projects?limit=1e2 HTTP/1.1', 400],
    ['GET /v1/projects?limit= HTTP/1.1', 400],
    ['GET /v1/projects?limit=200 HTTP/1.1', 200],
    [`GET /v1/projects/${'a'.repeat(129)} HTTP/1.1`, 400],
    [`GET /v1/projects/${'a'.repeat(2_000)} HTTP/1.1`, 404],
    [`GET /v1/projects?${'a&'.repeat(200)} HTTP/1.1`, 400],
  ])('the request line %s is answered with %i', async (line, status) => {
    const answer = await sendRaw(api.url, request(line));
    expect(statusLine(answer)).toContain(String(status));
    if (status >= 400) expect(answer).toContain('application/problem+json');
  });
});

describe('headers', () => {
  it('a call that does not accept JSON is a 406', async () => {
    const status = async (accept: string) =>
      (await api.read.call('listProjects', { headers: { accept } })).status;
    for (const accept of [
      '*/*',
      'application/*',
      'application/json',
      'text/html, application/json;q=0.1',
      '',
    ]) {
      expect([accept, await status(accept)]).toEqual([accept, 200]);
    }
    for (const accept of [
      'text/html',
      'application/xml',
      'application/json;q=0',
      '*/*, application/json;q=0',
    ]) {
      expect([accept, await status(accept)]).toEqual([accept, 406]);
    }
  });

  it('a valid X-Correlation-ID is echoed, an invalid one refused', async () => {
    const call = (id: string) => api.read.call('listProjects', { headers: { 'x-correlation-id': id } });
    const good = `a${'._:/-'.repeat(25)}zz`;
    expect((await call(good)).headers.get('x-correlation-id')).toBe(good);
    const without = await api.read.call('listProjects');
    expect(without.headers.get('x-correlation-id')).toBe(without.headers.get('x-request-id'));
    for (const id of ['-a', 'a b', 'a'.repeat(129), 'a,b', '"']) {
      const { problem, headers } = await call(id);
      expect(problem?.fieldErrors?.[0]?.path).toBe('X-Correlation-ID');
      expect(headers.get('x-correlation-id')).toBe(headers.get('x-request-id'));
    }
    const refused = await api.anonymous.call('listProjects', { headers: { 'x-correlation-id': 'mine' } });
    expect(refused.problem?.correlationId).toBe('mine');
  });

  it("only pages of the dashboard's origin may call from a browser", async () => {
    const response = await fetch(`${api.url}/v1/projects`, { headers: { origin: 'https://evil.example' } });
    expect(response.headers.get('access-control-allow-origin')).toBeNull();
  });
});

describe('bytes that are no HTTP', () => {
  it.each([
    ['nonsense', 'nonsense\r\n\r\n'],
    ['a TLS hello', Buffer.from('16030100a5010000a1', 'hex')],
    [
      'two lengths',
      'POST /v1/projects HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
    ],
    [
      'a length and chunks',
      'POST /v1/projects HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['long headers', `GET / HTTP/1.1\r\nhost: x\r\na: ${'b'.repeat(20_000)}\r\n\r\n`],
    ['no host', 'GET /v1/projects HTTP/1.1\r\n\r\n'],
  ])('%s gets a 400', async (_name, bytes) => {
    const answer = await sendRaw(api.url, bytes);
    expect(statusLine(answer)).toContain('400');
    expect(answer).toContain('application/problem+json');
    expect(answer).toContain('x-request-id: ');
  });
});

it('refused requests leave no rows behind', async () => {
  const { rows } = await api.pool.query<{ name: string }>('select name from projects');
  const names = rows.map(({ name }) => name);
  expect(names.filter((name) => !['main', 'Größe', 'zipped', 'a'].includes(name))).toEqual([]);
});
