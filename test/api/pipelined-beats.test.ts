// Beats that are sent before the answers to earlier ones have come, on one connection: as many as the contract promises,
// and a flood (docs/contract/beats.md).
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { sendRaw } from '../support/raw-http.ts';
import { seedMonitor } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

let api: ApiFixture;

beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(() => api?.close());

const beat = (address: string, more = '') => `GET /ping/${address} HTTP/1.1\r\nhost: x\r\n${more}\r\n`;

/** Also refusals: the plan limits the beats of a monitor. */
const countAnswers = (text: string) => text.split('HTTP/1.1 ').length - 1;

async function countBeats(monitorKey: string): Promise<number> {
  const { rows } = await api.pool.query<{ beats: number }>(
    'select count(*) as beats from observations where monitor_key = $1',
    [monitorKey],
  );
  return rows[0]?.beats ?? 0;
}

it('64 beats that are open on one connection get every answer, in order', async () => {
  const { address } = await seedMonitor(api.pool, api);
  const places = Array.from({ length: 64 }, (_, place) => `${place}`);
  const beats = places.map((place) => beat(address, `x-correlation-id: beat-${place}\r\n`));
  const answer = await sendRaw(api.url, beats.join(''), { halfClose: true });
  expect(countAnswers(answer)).toBe(64);
  expect([...answer.matchAll(/x-correlation-id: beat-(\d+)/g)].map(([, place]) => place)).toEqual(places);
});

it('a sender that keeps 64 beats open on a connection is never cut', async () => {
  const { address } = await seedMonitor(api.pool, api);
  const socket = connect(Number(new URL(api.url).port), '127.0.0.1').setEncoding('latin1');
  socket.write(beat(address).repeat(64));
  let received = '';
  let answers = 0;
  for await (const text of socket) {
    received += text;
    const before = answers;
    answers = countAnswers(received);
    if (answers >= 1_000) break;
    socket.write(beat(address).repeat(answers - before));
  }
  expect(answers).toBeGreaterThanOrEqual(1_000);
});

it('a connection with more open beats is ended, those that were begun count, and others are answered', async () => {
  const [flooded, other] = [await seedMonitor(api.pool, api), await seedMonitor(api.pool, api)];
  const flood = sendRaw(api.url, beat(flooded.address).repeat(2_000));
  expect((await fetch(`${api.url}/ping/${other.address}`)).status).toBe(200);
  // The end of the connection may overtake answers.
  expect(countAnswers(await flood)).toBeLessThan(2_000);
  const beats = await countBeats(flooded.monitorKey);
  expect(beats).toBeGreaterThanOrEqual(64);
  expect(beats).toBeLessThan(2_000);
});

it('beats that were begun count, also where the sender of a flood is gone', async () => {
  const { address, monitorKey } = await seedMonitor(api.pool, api);
  const socket = connect(Number(new URL(api.url).port), '127.0.0.1');
  socket.write(beat(address).repeat(2_000), () => socket.destroy());
  await waitFor(async () => (await countBeats(monitorKey)) >= 64);
});

it('what is sent behind a request for an upgrade does not take the answer to a later one', async () => {
  const [asking, behind] = [await seedMonitor(api.pool, api), await seedMonitor(api.pool, api)];
  const upgrade = beat(asking.address, 'connection: upgrade\r\nupgrade: h2c\r\n');
  const answer = await sendRaw(api.url, upgrade + beat(behind.address));
  const beats = (await countBeats(asking.monitorKey)) + (await countBeats(behind.monitorKey));
  expect(countAnswers(answer)).toBe(beats);
  expect(answer.toLowerCase()).toContain('connection: close');
});

it('a request for an upgrade is answered as any other', async () => {
  const { address } = await seedMonitor(api.pool, api);
  const text = beat(
    address,
    'connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n',
  );
  const answer = await sendRaw(api.url, text, { halfClose: true });
  expect(countAnswers(answer)).toBe(1);
});
