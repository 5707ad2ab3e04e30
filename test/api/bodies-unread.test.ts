// Bodies that nobody reads to their end, and what becomes of their connections: whole ones keep them, others end them, and
// none is kept for a client that does nothing more.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { buildApp } from '../../src/api/app.ts';
import { makeServer } from '../../src/api/http/server.ts';
import { openContext } from '../../src/service/calls/open-context.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { CHUNKED, digits, inChunks } from '../support/chunked-body.ts';
import { listen } from '../support/listen.ts';
import { makeConfig } from '../support/make-config.ts';
import { sendRaw } from '../support/raw-http.ts';
import { seedMonitor } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

/** Not read to its end. */
const CRUMBLED = inChunks(digits(16_400), 1);
const JSON_HEAD = `Host: any\r\nContent-Type: application/json\r\n${CHUNKED}\r\n`;

let api: ApiFixture;
/** On the same database, without beats. */
let app: FastifyInstance;
let endContext = async () => undefined as unknown;
const sockets: Socket[] = [];

beforeAll(async () => {
  api = await openApiFixture();
  const context = openContext(makeConfig(api.databaseUrl), 'test');
  endContext = () => context.databases.default.end();
  app = await buildApp({
    context,
    telemetry: createTelemetry({ role: 'api', logLevel: 'silent' }),
    issuers: [],
    maxEventLoopDelayMs: 0,
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
});
afterAll(async () => {
  await app?.close();
  await endContext();
  await api?.close();
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

const statusesOf = (answers: string) =>
  [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);

function countConnections(): Promise<number> {
  return new Promise((resolve, reject) => {
    app.server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
}

/** Sends the text to `app`, and neither closes its connection nor its half of it. */
async function begin(text: string): Promise<Socket> {
  const port = Number(new URL(app.listeningOrigin).port);
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  sockets.push(socket.on('error', () => undefined));
  await once(socket, 'connect');
  socket.write(text);
  return socket;
}

async function readHead(socket: Socket): Promise<string> {
  let text = '';
  for await (const bytes of socket.iterator({ destroyOnReturn: false })) {
    text += bytes;
    if (text.includes('\r\n\r\n')) break;
  }
  return text;
}

describe('a call that is answered at once, and whose body came with it,', () => {
  it('keeps its connection, and what is pipelined behind it is answered', async () => {
    const server = makeServer((request, response) => {
      response.statusCode = Number(request.url?.slice(1));
      response.end();
    });
    const { port, close } = await listen(server);
    const calls = [
      'POST /404 HTTP/1.1\r\nHost: any\r\nContent-Length: 4\r\n\r\nbody',
      `POST /503 HTTP/1.1\r\nHost: any\r\n${CHUNKED}\r\n\r\n${inChunks('body', 2)}0\r\n\r\n`,
      'GET /200 HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n',
    ];
    const answers = await sendRaw(`http://127.0.0.1:${port}`, calls.join(''));
    await close();
    expect(statusesOf(answers)).toEqual(['404', '503', '200']);
    expect(answers.split('Connection: keep-alive').length - 1).toBe(2);
  });

  it.each([
    { what: 'an address that is unknown', head: 'POST /unknown', status: '404' },
    { what: 'a method that is unknown', head: 'PUT /v1/monitors', status: '405' },
    { what: 'a publish address that can be none', head: 'POST /ping/none', status: '404' },
    { what: 'a method that no publish address has', head: 'PUT /ping/none', status: '405' },
  ])('does so for $what: a beat behind it counts', async ({ head, status }) => {
    const { address } = await seedMonitor(api.pool, api);
    const refused = `${head} HTTP/1.1\r\nHost: any\r\nContent-Length: 4\r\n\r\nbody`;
    const beat = `POST /ping/${address} HTTP/1.1\r\nHost: any\r\nConnection: close\r\nContent-Length: 4\r\n\r\ndone`;
    expect(statusesOf(await sendRaw(api.url, refused + beat))).toEqual([status, '200']);
  });
});

describe('a call whose body comes in too many small chunks', () => {
  it('is a 413 as soon as no more is read, and its connection ends, whatever its client does', async () => {
    const call = `POST /v1/monitors HTTP/1.1\r\nAuthorization: Bearer ${api.tokens.manage}\r\n${JSON_HEAD}\r\n${CRUMBLED}`;
    const clients = await Promise.all([begin(call), begin(call), begin(call)]);
    const [waiting, halfClosed] = clients;
    halfClosed?.end();
    if (waiting) {
      const answer = await readHead(waiting);
      expect(statusesOf(answer)).toEqual(['413']);
      expect(answer.toLowerCase()).toContain('connection: close');
      waiting.pause();
    }
    await waitFor(async () => (await countConnections()) === 0, { what: 'no connection' });
  });

  it('is answered, and its connection ends, also where a long last chunk makes up for the small ones', async () => {
    const server = makeServer(async (request, response) => {
      for await (const _ of request);
      response.end();
    });
    const { port, close } = await listen(server);
    // The bytes of each chunk are just too few, and the last one makes up for it.
    const body = `${inChunks(digits(16_384 * 63), 63)}${inChunks(digits(63), 63)}${inChunks(digits(40_000), 40_000)}`;
    const call = `POST / HTTP/1.1\r\nHost: any\r\n${CHUNKED}\r\n\r\n${body}0\r\n\r\n`;
    const answer = await sendRaw(`http://127.0.0.1:${port}`, call);
    await close();
    expect(statusesOf(answer)).toEqual(['200']);
    expect(answer).toContain('Connection: close');
  });
});

describe('an answer that its client does not read', () => {
  it('ends its connection when nothing has moved for the time of an idle one', async () => {
    expect(app.server.timeout).toBe(65_000);
    app.server.setTimeout(500);
    try {
      const idle = await begin('GET /docs HTTP/1.1\r\nHost: any\r\n\r\n'.repeat(60));
      idle.pause();
      await waitFor(async () => (await countConnections()) === 1, { what: 'the connection' });
      await waitFor(async () => (await countConnections()) === 0, { what: 'no connection' });
    } finally {
      app.server.setTimeout(65_000);
    }
  });
});

describe('what is no HTTP', () => {
  it('is refused, and its connection ends though its client keeps it', async () => {
    const idle = await begin('no HTTP\r\n\r\n');
    expect(statusesOf(await readHead(idle))).toEqual(['400']);
    await waitFor(async () => (await countConnections()) === 0, { what: 'no connection' });
    expect(idle.writable).toBe(true);
  });
});
