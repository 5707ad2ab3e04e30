// What old and new senders send and read: spellings of headers, trailing slashes, bodies that never end, unreadable
// paths, caches on the way (docs/contract/beats.md).
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildApp } from '../../src/api/app.ts';
import { BODY_TIME_MS } from '../../src/ingest/body-reader.ts';
import { openContext } from '../../src/service/calls/open-context.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { makeConfig } from '../support/make-config.ts';
import { sendRaw } from '../support/raw-http.ts';
import type { SeedMonitor } from '../support/seed.ts';
import { openPingFixture, type PingFixture } from './ping-fixture.ts';

let ping: PingFixture;

beforeAll(async () => {
  ping = await openPingFixture({ bodyTimeMs: 100 });
});
afterAll(() => ping?.close());

const send = (path: string, init: RequestInit = {}) => fetch(`${ping.url}/ping/${path}`, init);

async function readState({ projectId, monitorKey }: SeedMonitor) {
  const { rows } = await ping.pool.query<{ deadline_ms: number; messages: (string | null)[] }>(
    `select l.deadline_ms, (select coalesce(array_agg(o.message order by o.sequence), '{}') from observations o
       where o.project_id = $1 and o.monitor_key = $2) as messages
     from monitor_live l where l.project_id = $1 and l.monitor_key = $2`,
    [projectId, monitorKey],
  );
  const [row] = rows;
  if (!row) throw new Error('the monitor has no live row');
  return row;
}

describe('the headers of a beat', () => {
  it.each(['application/json', 'Application/JSON', 'text/html, APPLICATION/json;q=0.5'])(
    'a sender with Accept: %s gets JSON, in an answer and in a refusal',
    async (accept) => {
      const monitor = await ping.makeMonitor();
      const answer = await send(monitor.address, { headers: { accept } });
      expect(await answer.json()).toMatchObject({ accepted: true, sequence: 1 });
      const refusal = await send(`${monitor.address}/256`, { headers: { accept } });
      expect([refusal.status, refusal.headers.get('content-type')]).toEqual([
        404,
        expect.stringContaining('json'),
      ]);
    },
  );

  it.each(['gzip', 'x-gzip', 'X-GZIP', ' GZip '])(
    'a body with Content-Encoding: %s is read as gzip',
    async (encoding) => {
      const monitor = await ping.makeMonitor();
      const post = (contentType: string, body: string) =>
        send(monitor.address, {
          method: 'POST',
          headers: { 'content-type': contentType, 'content-encoding': encoding },
          body: gzipSync(body),
        });
      expect((await post('application/json', '{"message":"in JSON"}')).status).toBe(200);
      expect((await post('text/plain', 'in text')).status).toBe(200);
      expect((await readState(monitor)).messages).toEqual(['in JSON', 'in text']);
    },
  );

  it('answers and refusals carry Cache-Control: no-store', async () => {
    const monitor = await ping.makeMonitor();
    for (const path of [monitor.address, `${monitor.address}/256`, 'nothing']) {
      expect((await send(path)).headers.get('cache-control'), path).toBe('no-store');
    }
  });
});

describe('an address', () => {
  it('an address with a trailing slash is the same address', async () => {
    const monitor = await ping.makeMonitor();
    expect((await send(`${monitor.address}/`)).status).toBe(200);
    expect((await send(`${monitor.address}/?rid=a`, { method: 'POST', body: 'text' })).status).toBe(200);
    expect((await send(`${monitor.address}/`, { method: 'PUT' })).status).toBe(405);
    expect((await readState(monitor)).messages).toEqual([null, 'text']);
  });
});

describe('a body that does not end', () => {
  const begin = (address: string, contentType: string, text: string) =>
    sendRaw(
      ping.url,
      `POST /ping/${address} HTTP/1.1\r\nhost: x\r\ncontent-type: ${contentType}\r\ncontent-length: 1000\r\n\r\n${text}`,
    );

  it('an unfinished JSON body is refused, and the deadline moves because the job ran', async () => {
    const monitor = await ping.makeMonitor();
    expect((await send(monitor.address)).status).toBe(200);
    const before = await readState(monitor);
    const answer = await begin(monitor.address, 'application/json', '{"message":"never en');
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer.toLowerCase()).toContain('connection: close');
    const after = await readState(monitor);
    expect(after.messages).toEqual([null]);
    expect(after.deadline_ms).toBeGreaterThan(before.deadline_ms);
  });

  it('an unfinished text body is kept as far as it arrived', async () => {
    const monitor = await ping.makeMonitor();
    const answer = await begin(monitor.address, 'text/plain', 'as far as this');
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer.toLowerCase()).toContain('connection: close');
    expect((await readState(monitor)).messages).toEqual(['as far as this']);
  });
});

describe('the beat path in the whole api', () => {
  let api: ApiFixture;
  beforeAll(async () => {
    api = await openApiFixture();
  });
  afterAll(async () => {
    await api?.close();
  });

  it.each(['%zz', '%ff', 'x'.repeat(5_000)])(
    'an unreadable path under /ping is refused in the form that the sender accepts: %s',
    async (path) => {
      const text = await fetch(`${api.url}/ping/${path}`);
      expect(text.headers.get('content-type')).toBe('text/plain; charset=utf-8');
      const json = await fetch(`${api.url}/ping/${path}`, { headers: { accept: 'application/json' } });
      expect(json.headers.get('content-type')).toMatch('application/problem+json');
      for (const answer of [text, json]) {
        expect([400, 404]).toContain(answer.status);
        expect(answer.headers.get('ping-body-limit')).toBe('1024');
        expect(answer.headers.get('x-request-id')).toBeTruthy();
      }
    },
  );

  it('the server waits longer for a request than the beat path waits for its body', async () => {
    const context = openContext(makeConfig(api.databaseUrl), 'test');
    const telemetry = createTelemetry({ role: 'api', logLevel: 'silent' });
    const app = await buildApp({ context, telemetry, issuers: [] });
    // The server checks its connections once a second.
    expect(app.server.requestTimeout).toBeGreaterThan(BODY_TIME_MS + 1_000);
    expect(BODY_TIME_MS).toBe(30_000);
    await app.close();
    await context.databases.default.end();
  });
});
