// Senders at the edge of the rules (docs/contract/beats.md): odd types, odd times, pipelines, reused keys, wrong
// methods and paths.
// Holds: pingSuccess, pingSuccessPost.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sendRaw } from '../support/raw-http.ts';
import type { SeedMonitor } from '../support/seed.ts';
import { liveOf, observationsOf } from '../support/stored-rows.ts';
import { openPingFixture, type PingFixture } from './ping-fixture.ts';

let ping: PingFixture;

beforeAll(async () => {
  ping = await openPingFixture();
});
afterAll(() => ping?.close());

const send = (path: string, init: RequestInit = {}) => fetch(`${ping.url}/ping/${path}`, init);

async function column<T>(monitor: SeedMonitor, name: string): Promise<T[]> {
  const rows = await observationsOf(ping.pool, monitor);
  return rows.map((row) => row[name]);
}

it('a body is kept as the message when its Content-Type is unknown, malformed or empty', async () => {
  const monitor = await ping.makeMonitor();
  for (const type of [';;', 'no type at all', 'text', 'application/json-patch+json', '']) {
    const head = `POST /ping/${monitor.address} HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\n`;
    const answer = await sendRaw(ping.url, `${head}Content-Length: 2\r\nConnection: close\r\n\r\nhi`);
    expect(answer, type).toContain('200 OK');
  }
  expect(await column(monitor, 'message')).toEqual(Array(5).fill('hi'));
});

it('an observedAt that does not exist or cannot be stored is refused, and other times are kept', async () => {
  const monitor = await ping.makeMonitor();
  const post = (observedAt: string) =>
    send(monitor.address, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify({ observedAt }),
    });
  for (const observedAt of [
    '2026-02-29T08:00:00Z',
    '2026-04-31T08:00:00Z',
    '2026-01-01T24:00:00Z',
    '0000-01-01T00:00:00Z',
    '0001-01-01T00:00:00+01:00',
    '9999-12-31T23:59:59-01:00',
  ]) {
    expect((await post(observedAt)).status, observedAt).toBe(400);
  }
  for (const observedAt of [
    '2028-02-29T08:00:00Z',
    '0001-01-01T00:00:00Z',
    '9999-12-31T23:59:59.999Z',
    '2028-02-29t08:00:00.5z',
    '2016-12-31T23:59:60Z',
  ]) {
    expect((await post(observedAt)).status, observedAt).toBe(200);
  }
  expect(await column(monitor, 'sequence')).toEqual([1, 2, 3, 4, 5]);
});

it('pipelined beats on one connection keep their order', async () => {
  const monitor = await ping.makeMonitor();
  const head = (suffix: string) => `GET /ping/${monitor.address}${suffix} HTTP/1.1\r\nHost: x\r\n`;
  const calls = ['/start', '', '/fail', '', '/log', ''].map((suffix) => `${head(suffix)}\r\n`);
  const answer = await sendRaw(ping.url, `${calls.join('')}${head('')}Connection: close\r\n\r\n`);
  expect(answer.match(/200 OK/g)).toHaveLength(7);
  expect(await column(monitor, 'kind')).toEqual([
    'start',
    'success',
    'fail',
    'success',
    'log',
    'success',
    'success',
  ]);
});

it('a beat with the Idempotency-Key of another beat is refused with 409 and still moves the deadline', async () => {
  const monitor = await ping.makeMonitor();
  const headers = { 'idempotency-key': 'run-1', accept: 'application/json' };
  const deadline = async (): Promise<number> => (await liveOf(ping.pool, monitor)).deadline_ms;
  const first = await (await send(`${monitor.address}/start`, { headers })).json();
  const before = await deadline();
  const other = await send(monitor.address, { headers: { 'idempotency-key': 'run-1' } });
  expect([other.status, await other.text()]).toEqual([409, expect.stringContaining('Idempotency-Key')]);
  expect(await deadline()).toBeGreaterThan(before);
  expect(await (await send(`${monitor.address}/start`, { headers })).json()).toEqual(first);
  expect(await column(monitor, 'kind')).toEqual(['start']);
});

it('a refusal in text says what is wrong and repeats no sentence', async () => {
  const monitor = await ping.makeMonitor();
  const headers = { 'content-type': 'application/json' };
  const answer = await send(monitor.address, { method: 'POST', headers, body: '{"runId":"a","runId":"b"}' });
  expect(await answer.text()).toBe(
    'The request is not valid. runId: State this field once. The deadline was not moved.\n',
  );
});

it('a wrong method is answered 405 with Allow, an unknown path 404, both in text', async () => {
  const monitor = await ping.makeMonitor();
  const put = await send(monitor.address, { method: 'PUT' });
  expect(put.status).toBe(405);
  expect(put.headers.get('allow')).toBe('GET, HEAD, POST');
  expect(put.headers.get('content-type')).toBe('text/plain; charset=utf-8');
  expect(put.headers.get('ping-body-limit')).toBe('1024');
  for (const suffix of ['/start/again', '/start/', '//', '/256']) {
    const answer = await send(`${monitor.address}${suffix}`);
    expect(answer.status, suffix).toBe(404);
    expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(answer.headers.get('ping-body-limit')).toBe('1024');
  }
});
