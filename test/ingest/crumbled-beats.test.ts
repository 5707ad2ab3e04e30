// Beats whose body comes in too many small chunks, from senders that never end it (docs/contract/beats.md).
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CHUNKED, digits, inChunks } from '../support/chunked-body.ts';
import { sendRaw } from '../support/raw-http.ts';
import type { SeedMonitor } from '../support/seed.ts';
import { liveOf, observationsOf } from '../support/stored-rows.ts';
import { openPingFixture, type PingFixture } from './ping-fixture.ts';

/** More chunks than are read. */
const TEXT = digits(30_000);

let ping: PingFixture;

beforeAll(async () => {
  // Nobody is answered because his time is over.
  ping = await openPingFixture({ hasProductServer: true, bodyTimeMs: 600_000 });
});
afterAll(() => ping?.close());

async function beat(
  { address }: SeedMonitor,
  chunks: string | Buffer,
  ...headers: string[]
): Promise<string> {
  const head = ['host: x', CHUNKED, ...headers].join('\r\n');
  const begin = Buffer.from(`POST /ping/${address} HTTP/1.1\r\n${head}\r\n\r\n`);
  const answer = await sendRaw(ping.url, Buffer.concat([begin, Buffer.from(chunks)]));
  expect(answer.toLowerCase()).toContain('connection: close');
  return answer;
}

async function messageOf(monitor: SeedMonitor): Promise<string> {
  const [row] = await observationsOf(ping.pool, monitor);
  return String(row?.message);
}

it('a text counts as soon as no more is read, and its end up to there is the message', async () => {
  const monitor = await ping.makeMonitor();
  expect(await beat(monitor, inChunks(TEXT, 1))).toMatch(/^HTTP\/1\.1 200 /);
  const message = await messageOf(monitor);
  expect(message).toHaveLength(1_024);
  expect(TEXT).toContain(message);
});

it('a text in gzip counts so too, with what could be unpacked of it', async () => {
  const monitor = await ping.makeMonitor();
  const chunks = Array.from(gzipSync(TEXT, { level: 0 }), (byte) => [
    Buffer.from('1\r\n'),
    Buffer.from([byte]),
    Buffer.from('\r\n'),
  ]);
  const answer = await beat(monitor, Buffer.concat(chunks.flat()), 'content-encoding: gzip');
  expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  const message = await messageOf(monitor);
  expect(message).toHaveLength(1_024);
  expect(TEXT).toContain(message);
});

it('JSON is refused as soon as no more is read, and the deadline moves because the job ran', async () => {
  const monitor = await ping.makeMonitor({
    live: { deadline_ms: Date.now() + 1_000, anchor_ms: Date.now() - 119_000 },
  });
  const answer = await beat(monitor, inChunks(TEXT, 1), 'content-type: application/json');
  expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  expect(await observationsOf(ping.pool, monitor)).toEqual([]);
  expect((await liveOf(ping.pool, monitor)).deadline_ms).toBeGreaterThan(Date.now() + 100_000);
});
