// Bodies that cost more than they should: in chunks of one byte, too long to be read, or for an address that reads none. What
// they cost is counted, in pieces and bytes.
import { once } from 'node:events';
import type { IncomingMessage, RequestListener, Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { makeServer, readUpToAt } from '../../src/api/http/server.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { CHUNKED, digits, inChunks } from '../support/chunked-body.ts';
import { type Listening, listen } from '../support/listen.ts';
import { sendRaw } from '../support/raw-http.ts';
import { startHostileSenders } from '../support/start-hostile-senders.ts';
import { waitFor } from '../support/wait-for.ts';

const MIB = 2 ** 20;
const KIB = 2 ** 10;

let api: ApiFixture;
let server: Server;
let listening: Listening | undefined;

beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(() => api?.close());
afterEach(async () => {
  await listening?.close();
  listening = undefined;
});

async function serve(handle: RequestListener): Promise<number> {
  server = makeServer(handle);
  listening = await listen(server);
  return listening.port;
}

const post = (...headers: string[]) =>
  `POST / HTTP/1.1\r\nHost: any\r\n${headers.map((header) => `${header}\r\n`).join('')}\r\n`;

/** A connection that reads nothing until it is asked to. */
async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  await once(socket, 'connect');
  return socket.pause();
}

/** Everything that the server sends before it ends the connection. Rejects when the connection is reset. */
async function readToEnd(socket: Socket): Promise<string> {
  let text = '';
  for await (const bytes of socket) text += bytes;
  socket.destroy();
  return text;
}

/** Resolves when no turn is to come and the server has read nothing more in so many turns of the event loop. */
async function readsNoMore({ socket }: IncomingMessage, turns = 300): Promise<void> {
  for (let before = -1; before !== socket.bytesRead || readUpToAt(server) !== Number.POSITIVE_INFINITY; ) {
    before = socket.bytesRead;
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
}

async function readBody(request: IncomingMessage): Promise<Buffer[]> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece);
  return pieces;
}

function countBytes(): { handle: RequestListener; bytes: () => number } {
  let bytes = 0;
  return {
    bytes: () => bytes,
    handle: (request, response) => {
      request.on('data', (piece: Buffer) => {
        bytes += piece.length;
      });
      request.on('error', () => undefined); // the sender left
      if (request.url === '/new') response.end();
    },
  };
}

it('of fifty connections that pour bodies in short lines, a turn of the event loop reads 3,000 lines', async () => {
  const { handle, bytes } = countBytes();
  const port = await serve(handle);
  const program = startHostileSenders({ port, path: '/', attacks: { shortLines: 50 } });
  const ended = once(program, 'exit');
  try {
    const isFlooded = () => (listening?.connections() ?? 0) >= 50 && bytes() > 50 * 80 * KIB;
    await waitFor(isFlooded, { what: 'the flood' });
    const before = bytes();
    const turns = 300;
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect((bytes() - before) / 80 / turns).toBeLessThan(3_000);
    expect(readUpToAt(server)).toBeLessThan(performance.now());
    expect((await fetch(`http://127.0.0.1:${port}/new`)).status).toBe(200);
  } finally {
    program.kill();
    await ended;
    await listening?.close();
  }
  await waitFor(() => readUpToAt(server) === Number.POSITIVE_INFINITY, { what: 'nobody waits' });
});

it('a body in chunks of one byte is not read past 16,384 of them and what was read at once, and nobody waits for it', async () => {
  const { handle, bytes } = countBytes();
  const socket = await open(await serve(handle));
  socket.write(post(CHUNKED) + inChunks(digits(100_000), 1));
  await waitFor(() => bytes() > 16_384, { what: 'the chunks' });
  await waitFor(() => readUpToAt(server) === Number.POSITIVE_INFINITY, { what: 'nobody waits' });
  expect(bytes()).toBeLessThan(16_384 + (64 * KIB) / 6);
  socket.destroy();
});

it('where such a body ends within what was read at once it is answered, and the connection ends', async () => {
  const text = digits(16_390);
  const port = await serve(async (request, response) => {
    response.end(Buffer.concat(await readBody(request)));
  });
  const call = `${post(CHUNKED)}${inChunks(text, 1)}0\r\n\r\n`;
  const answer = await sendRaw(`http://127.0.0.1:${port}`, call);
  expect(answer).toContain('Connection: close');
  expect(answer.endsWith(`\r\n\r\n${text}`)).toBe(true);
});

it('a body in short lines is read whole, however many they are', async () => {
  const text = digits(50_000 * 80);
  const port = await serve(async (request, response) => {
    response.end(Buffer.concat(await readBody(request)));
  });
  const answer = await sendRaw(
    `http://127.0.0.1:${port}`,
    `${post(CHUNKED, 'Connection: close')}${inChunks(text, 80)}0\r\n\r\n`,
  );
  expect(answer.endsWith(`\r\n\r\n${text}`)).toBe(true);
});

it('a sender whose body nobody reads is stopped, what is kept is as large as its bytes, and all of it is read later', async () => {
  const text = digits(500_000);
  let request: IncomingMessage | undefined;
  let answer = () => undefined as unknown;
  const port = await serve((unread, response) => {
    request = unread;
    answer = () => response.end('read');
  });
  const socket = await open(port);
  socket.write(`${post(CHUNKED)}${inChunks(text, 70)}0\r\n\r\n`);
  const unread = await waitFor(() => request, { what: 'the request' });
  await readsNoMore(unread);
  expect(unread.readableLength).toBeLessThanOrEqual(128 * KIB);
  expect(unread.socket.bytesRead).toBeLessThanOrEqual(MIB);
  const pieces = await readBody(unread);
  expect(Buffer.concat(pieces).toString()).toBe(text);
  expect(pieces.length).toBeLessThan(text.length / 100);
  for (const piece of pieces) expect(piece.buffer.byteLength).toBe(piece.length);
  answer();
  await once(socket.resume(), 'data');
  socket.destroy();
});

it('a body in chunks of one byte arrives whole, and its connection is used again', async () => {
  const text = digits(16_000);
  const port = await serve(async (request, response) => {
    response.end(Buffer.concat(await readBody(request)));
  });
  const call = `${post(CHUNKED)}${inChunks(text, 1)}0\r\n\r\n`;
  const last = `${post('Connection: close', 'Content-Length: 4')}last`;
  const answers = await sendRaw(`http://127.0.0.1:${port}`, call + call + last);
  const bodies = answers.split('HTTP/1.1 200 OK').map((one) => one.slice(one.indexOf('\r\n\r\n') + 4));
  expect(bodies.slice(1)).toEqual([text, text, 'last']);
});

it('a slow sender whose body comes after its head is answered, and its connection is used again', async () => {
  let begun = 0;
  const port = await serve(async (request, response) => {
    begun += 1;
    response.end(Buffer.concat(await readBody(request)));
  });
  const socket = (await open(port)).setEncoding('latin1');
  for (const call of [1, 2]) {
    socket.write(`${post('Content-Length: 10')}first`);
    await waitFor(() => begun === call, { what: `call ${call}` });
    socket.write(' last');
    const [answer] = await once(socket.resume(), 'data');
    expect(answer).toContain('Connection: keep-alive');
    expect(answer).toContain('first last');
  }
  socket.destroy();
});

it('an answer before its body ends the connection: the body is not read, and the answer is not lost', async () => {
  let request: IncomingMessage | undefined;
  const port = await serve((early, response) => {
    request = early;
    response.statusCode = 404;
    response.end('unknown');
  });
  const socket = await open(port);
  socket.write(
    Buffer.concat([Buffer.from(post(`Content-Length: ${20 * MIB}`)), Buffer.alloc(19 * MIB, 'x')]),
  );
  const early = await waitFor(() => request, { what: 'the request' });
  await readsNoMore(early);
  expect(early.socket.bytesRead).toBeLessThan(4 * MIB);
  // Its sender looks for the answer only now.
  const answer = await readToEnd(socket);
  expect(answer).toContain('Connection: close');
  expect(answer).toContain('unknown');
});

it.each([
  { what: 'a GET of an address that is unknown', head: 'GET /unknown', status: 404 },
  { what: 'a POST of an address that is unknown', head: 'POST /unknown', status: 404 },
  { what: 'a call without a credential', head: 'POST /v1/monitors', status: 401 },
  { what: 'a beat for an address that is unknown', head: `POST /ping/${crypto.randomUUID()}`, status: 404 },
])('$what is answered before its body, with Connection: close', async ({ head, status }) => {
  const text = `${head} HTTP/1.1\r\nHost: any\r\n${CHUNKED}\r\n\r\n${inChunks(digits(1_000), 1)}`;
  const answer = await sendRaw(api.url, text);
  expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(answer.slice(0, answer.indexOf('\r\n\r\n')).toLowerCase()).toContain('connection: close');
});

it('a call that is refused when its body is there keeps its connection', async () => {
  const head = `Authorization: Bearer ${api.tokens.manage}\r\nContent-Type: application/json\r\n`;
  const call = `POST /v1/monitors HTTP/1.1\r\nHost: any\r\n${head}Content-Length: 2\r\n`;
  const answers = await sendRaw(api.url, `${call}\r\n{}${call}Connection: close\r\n\r\n{}`);
  expect(answers.split('HTTP/1.1 400').length - 1).toBe(2);
});
