// Bodies of beats: the end of a long text, gzip, and JSON that other systems send (docs/contract/beats.md).
import { createHook } from 'node:async_hooks';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { text as readText } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { createGunzip, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sendRaw } from '../support/raw-http.ts';
import type { SeedMonitor } from '../support/seed.ts';
import { liveOf, observationsOf } from '../support/stored-rows.ts';
import { waitFor } from '../support/wait-for.ts';
import { openPingFixture, type PingFixture } from './ping-fixture.ts';
import { ALERTMANAGER_WATCHDOG, GRAFANA_FIRING } from './sender-bodies.ts';

const MEBIBYTE = 1024 * 1024;

let ping: PingFixture;

beforeAll(async () => {
  ping = await openPingFixture();
});
afterAll(() => ping?.close());

interface Sent {
  type: string;
  isZipped?: boolean;
  suffix?: string;
}

function post({ address }: SeedMonitor, body: string | Buffer, { type, isZipped, suffix = '' }: Sent) {
  return fetch(`${ping.url}/ping/${address}${suffix}`, {
    method: 'POST',
    body: new Uint8Array(isZipped ? gzipSync(body) : Buffer.from(body)),
    headers: { 'content-type': type, ...(isZipped ? { 'content-encoding': 'gzip' } : {}) },
  });
}

const postText = (monitor: SeedMonitor, body: string | Buffer, isZipped = false) =>
  post(monitor, body, { type: 'text/plain', isZipped });
const postJson = (monitor: SeedMonitor, body: string | Buffer, isZipped = false) =>
  post(monitor, body, { type: 'application/json', isZipped });

async function column<T>(monitor: SeedMonitor, name: string): Promise<T[]> {
  const rows = await observationsOf(ping.pool, monitor);
  return rows.map((row) => row[name]);
}

describe('a text body', () => {
  it.each([
    [false, 500_000],
    [true, 250_000],
  ])('the last 1,024 characters of a long text are kept (gzip: %s)', async (isZipped, length) => {
    const monitor = await ping.makeMonitor();
    const text = `${'😀'.repeat(length)}${'ä'.repeat(1_000)}`;
    const response = await postText(monitor, text, isZipped);
    expect([response.status, response.headers.get('ping-body-limit')]).toEqual([200, '1024']);
    expect(await column(monitor, 'message')).toEqual([`${'😀'.repeat(24)}${'ä'.repeat(1_000)}`]);
  });

  it('a text that arrives byte by byte is the same text', async () => {
    const monitor = await ping.makeMonitor();
    const text = Buffer.from(`begin ${'€'.repeat(2_000)} end`);
    const chunks = Array.from(text, (byte) => [
      Buffer.from('1\r\n'),
      Buffer.from([byte]),
      Buffer.from('\r\n'),
    ]);
    const head = `POST /ping/${monitor.address} HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\n`;
    const answer = await sendRaw(
      ping.url,
      Buffer.concat([
        Buffer.from(`${head}transfer-encoding: chunked\r\nconnection: close\r\n\r\n`),
        ...chunks.flat(),
        Buffer.from('0\r\n\r\n'),
      ]),
    );
    expect(answer).toContain('200 OK');
    expect(await column(monitor, 'message')).toEqual([`${'€'.repeat(1_020)} end`]);
  });

  it('bytes that are not UTF-8 and NUL become U+FFFD at the end of a long text too', async () => {
    const monitor = await ping.makeMonitor();
    const end = Buffer.from([0x61, 0xff, 0x00, 0xe2, 0x82, 0x62, 0xe2]);
    for (const length of [0, 5_000, 5_001, 5_002, 5_003]) {
      expect((await postText(monitor, Buffer.concat([Buffer.alloc(length, '😀'), end]))).status).toBe(200);
    }
    const messages = await column<string>(monitor, 'message');
    for (const message of messages) expect(message.slice(-6)).toBe('a\ufffd\ufffd\ufffdb\ufffd');
    expect(messages.map((message) => [...message].length)).toEqual([6, 1_024, 1_024, 1_024, 1_024]);
  });

  it('a text of more than 10 MiB is cut there, its end up to there is kept, and the connection ends', async () => {
    const monitor = await ping.makeMonitor();
    const text = Buffer.concat([Buffer.alloc(10 * MEBIBYTE, 'a'), Buffer.alloc(MEBIBYTE, 'b')]);
    const head = `POST /ping/${monitor.address} HTTP/1.1\r\nhost: x\r\ncontent-length: ${text.length}\r\n\r\n`;
    // The answer comes before the whole text is sent.
    const answer = await sendRaw(ping.url, Buffer.concat([Buffer.from(head), text.subarray(0, -1)]));
    expect(answer).toContain('200 OK');
    expect(answer.toLowerCase()).toContain('connection: close');
    expect(await column(monitor, 'message')).toEqual(['a'.repeat(1_024)]);
  });

  it('of a text in gzip 1 MiB is unpacked, its end up to there is kept, and its beat counts', async () => {
    const monitor = await ping.makeMonitor();
    const text = Buffer.concat([Buffer.alloc(MEBIBYTE, 'a'), Buffer.alloc(20 * MEBIBYTE, 'b')]);
    expect((await postText(monitor, text, true)).status).toBe(200);
    expect(await column(monitor, 'message')).toEqual(['a'.repeat(1_024)]);
  });

  it('the unpacking ends there while the sender does not, and the rest is read as it is', async () => {
    const monitor = await ping.makeMonitor();
    const bomb = gzipSync(Buffer.alloc(62 * MEBIBYTE, 'a'));
    const rest = 10;
    const pieces = countPieces();
    const socket = connect({ port: Number(new URL(ping.url).port), host: '127.0.0.1' });
    try {
      const head = `POST /ping/${monitor.address} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n`;
      const length = `content-encoding: gzip\r\ncontent-length: ${bomb.length + rest}\r\n\r\n`;
      socket.write(Buffer.concat([Buffer.from(head + length), bomb]));
      await waitFor(() => pieces.counts()[0], { what: 'the unpacking begins' });
      // By the time in which the test unpacks the whole bomb, so would the server.
      await pipeline(Readable.from([bomb]), createGunzip(), drop);
      const [ofServer = 0, ofTest = 0] = pieces.counts();
      expect(ofTest * PIECE).toBeGreaterThanOrEqual(62 * MEBIBYTE);
      expect(ofServer * PIECE).toBeLessThanOrEqual(MEBIBYTE + 8 * PIECE);
      socket.write(Buffer.alloc(rest));
      expect(await readText(socket)).toContain('200 OK');
      expect(pieces.counts()).toEqual([ofServer, ofTest]);
    } finally {
      pieces.close();
      socket.destroy();
    }
    expect(await column(monitor, 'message')).toEqual(['a'.repeat(1_024)]);
  });
});

/** What a gunzip unpacks at once. */
const PIECE = 16 * 1024;

async function drop(source: AsyncIterable<Buffer>): Promise<void> {
  for await (const _chunk of source);
}

/** Counts what each gunzip of this process unpacks, in the order of their beginnings. */
function countPieces(): { counts: () => number[]; close: () => void } {
  const counts = new Map<number, number>();
  const hook = createHook({
    init: (id, type) => {
      if (type === 'ZLIB') counts.set(id, 0);
    },
    before: (id) => {
      const count = counts.get(id);
      if (count !== undefined) counts.set(id, count + 1);
    },
  }).enable();
  return { counts: () => [...counts.values()], close: () => hook.disable() };
}

describe('a JSON body in gzip', () => {
  const padded = (length: number) => '{"runId":"zipped"}'.padEnd(length, ' ');
  /** Longer than the text. */
  const postStored = ({ address }: SeedMonitor, text: string) =>
    fetch(`${ping.url}/ping/${address}`, {
      method: 'POST',
      body: gzipSync(text, { level: 0 }),
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    });

  it('16 KiB after inflation are taken, one byte more is a 413', async () => {
    const monitor = await ping.makeMonitor();
    expect((await postJson(monitor, padded(16_384), true)).status).toBe(200);
    expect((await postJson(monitor, padded(16_385), true)).status).toBe(413);
    expect((await postJson(monitor, padded(16_384))).status).toBe(200);
    expect((await postJson(monitor, padded(16_385))).status).toBe(413);
    expect(await column(monitor, 'run_id')).toEqual(['zipped', 'zipped']);
  });

  it('16 KiB whose gzip is longer than 16 KiB are taken', async () => {
    const monitor = await ping.makeMonitor();
    expect(gzipSync(padded(16_384), { level: 0 }).length).toBeGreaterThan(16_384);
    expect((await postStored(monitor, padded(16_384))).status).toBe(200);
    expect(await column(monitor, 'run_id')).toEqual(['zipped']);
  });

  it('a bomb and a gzip of more than 32 KiB are a 413', async () => {
    const monitor = await ping.makeMonitor();
    expect((await postJson(monitor, padded(30 * MEBIBYTE), true)).status).toBe(413);
    expect((await postStored(monitor, padded(32_768))).status).toBe(413);
    expect(await column(monitor, 'sequence')).toEqual([]);
  });
});

describe('JSON of other senders', () => {
  it.each([
    ["Alertmanager's Watchdog", ALERTMANAGER_WATCHDOG],
    ['a contact point of Grafana', GRAFANA_FIRING],
  ])('%s beats unchanged, and the end of its body is the message', async (_name, body) => {
    const monitor = await ping.makeMonitor();
    const text = JSON.stringify(body);
    expect((await postJson(monitor, text)).status).toBe(200);
    expect((await postJson(monitor, text, true)).status).toBe(200);
    const message = [...text].slice(-1_024).join('');
    expect(await column(monitor, 'message')).toEqual([message, message]);
    expect(await column(monitor, 'kind')).toEqual(['success', 'success']);
  });

  it.each([
    ['a list', '[{"status":"success"}]'],
    ['a text', '"done"'],
    ['a number', '1e999'],
    ['null', 'null'],
    ['true', 'true'],
    ['an object with a status of its own', '{"status":"firing","message":"x","title":"y"}'],
    ['an object with none of our keys', '{"text":"done"}'],
    ['a misspelled key of ours alone', '{"mesurements":{"rows":1}}'],
    ['a message beside keys of its own', '{"message":5,"title":"y"}'],
    ['a key stated twice', '{"title":"a","title":"b"}'],
    ['a key __proto__', '{"__proto__":{"status":"fail"}}'],
    ['deep nesting', `{"a":${'['.repeat(200)}${']'.repeat(200)}}`],
    ['an escaped NUL', '{"title":"\\u0000\\ud800"}'],
  ])('%s is kept as the message, as it was sent', async (_name, text) => {
    const monitor = await ping.makeMonitor();
    expect((await postJson(monitor, text)).status).toBe(200);
    expect(await observationsOf(ping.pool, monitor)).toMatchObject([{ kind: 'success', message: text }]);
  });

  it('the suffix of the address says the kind of a beat whose JSON is not ours', async () => {
    const monitor = await ping.makeMonitor();
    const body = '{"status":"resolved","title":"x"}';
    await post(monitor, body, { type: 'application/json', suffix: '/fail' });
    expect(await observationsOf(ping.pool, monitor)).toMatchObject([{ kind: 'fail', message: body }]);
  });

  it.each([
    ['none but our keys', '{"message":"x","status":"firing"}'],
    ['measurements', '{"measurements":{"rows":1},"title":"y"}'],
    ['an observedAt', '{"observedAt":"yesterday","title":"y"}'],
    ['a runId', '{"runId":"a","title":"y"}'],
    ['an exitStatus', '{"exitStatus":null,"title":"y"}'],
    ['a status of our words', '{"status":"success","title":"y"}'],
    ['a field of ours stated twice', '{"status":"fail","status":"success"}'],
  ])('an object with %s is a beat of ours, and refused if it is not valid', async (_name, text) => {
    const monitor = await ping.makeMonitor({
      live: { deadline_ms: Date.now() + 1_000, anchor_ms: Date.now() - 119_000 },
    });
    expect((await postJson(monitor, text)).status).toBe(400);
    expect(await column(monitor, 'sequence')).toEqual([]);
    expect((await liveOf(ping.pool, monitor)).deadline_ms).toBeGreaterThan(Date.now() + 100_000);
  });

  it('an empty object is a success without a message', async () => {
    const monitor = await ping.makeMonitor();
    expect((await postJson(monitor, '{}')).status).toBe(200);
    expect(await observationsOf(ping.pool, monitor)).toMatchObject([{ kind: 'success', message: null }]);
  });
});
