// An api that speaks https: what it accepts, that floods and broken input are met as over http, a renewed certificate, and
// how the operator verifies it.
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect, Server } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ServedCertificate } from '../../src/api/http/served-certificate.ts';
import { makeServer } from '../../src/api/http/server.ts';
import { startApi } from '../../src/api/start-api.ts';
import { RestClient } from '../../src/client/rest-client.ts';
import { ArrivalProbe } from '../../src/ingest/arrival-probe.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type Listening, listen } from '../support/listen.ts';
import { makeConfig } from '../support/make-config.ts';
import { sendRaw } from '../support/raw-http.ts';
import { seedMonitor } from '../support/seed.ts';
import {
  AUTHORITY_FILE,
  FOREIGN_AUTHORITY_FILE,
  makeServedFolder,
  place,
  type ServedFolder,
} from '../support/served-folder.ts';
import { waitFor } from '../support/wait-for.ts';

let folder: ServedFolder;
beforeAll(async () => {
  folder = await makeServedFolder();
});
afterAll(() => folder?.remove());

const beat = (address: string, more = '') => `GET /ping/${address} HTTP/1.1\r\nhost: x\r\n${more}\r\n`;
const countAnswers = (text: string) => text.split('HTTP/1.1 ').length - 1;

describe('an api with a certificate', () => {
  let api: ApiFixture;
  let url: string;
  let address: string;
  beforeAll(async () => {
    api = await openApiFixture({ config: { tlsFolder: folder.path, host: '0.0.0.0' } });
    url = api.url.replace('http:', 'https:');
    ({ address } = await seedMonitor(api.pool, api));
    await writeFile(join(folder.path, 'token'), api.tokens.operator);
  });
  afterAll(() => api?.close());

  it('it speaks https by TLS 1.2 and newer', async () => {
    const { port } = new URL(url);
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const to = { port: Number(port), host: '127.0.0.1', rejectUnauthorized: false };
      const socket = connect({ ...to, minVersion: version, maxVersion: version });
      await once(socket, 'secureConnect');
      expect(socket.getProtocol()).toBe(version);
      socket.destroy();
    }
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    const socket = connect({ port: Number(port), host: '127.0.0.1', rejectUnauthorized: false, ...old });
    const [error] = await once(socket, 'error');
    expect(error.message).toMatch(/alert|version|closed|reset/i);
  });

  it('bytes that are no TLS, and plain http, end their own connection at once', async () => {
    const garbage = Buffer.from('1603030005ffffffffff', 'hex');
    for (const bytes of [garbage, Buffer.from('\0\r\n\r\n'), beat(address)]) {
      const answer = await sendRaw(api.url, bytes).catch(() => '');
      expect(answer).not.toContain('HTTP/1.1');
    }
    expect(await sendRaw(url, beat(address), { halfClose: true })).toMatch(/^HTTP\/1.1 200/);
  });

  it('a request that is not HTTP is refused in the form of every refusal', async () => {
    const answer = await sendRaw(url, 'no http\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).toContain('application/problem+json');
  });

  it('64 beats that are open on one connection get every answer, in order, also after a half-close', async () => {
    const places = Array.from({ length: 64 }, (_, at) => `${at}`);
    const beats = places.map((at) => beat(address, `x-correlation-id: beat-${at}\r\n`));
    const answer = await sendRaw(url, beats.join(''), { halfClose: true });
    expect([...answer.matchAll(/x-correlation-id: beat-(\d+)/g)].map(([, at]) => at)).toEqual(places);
  });

  it('a connection with more open beats is ended, and others are answered', async () => {
    const flood = sendRaw(url, beat(address).repeat(2_000));
    expect(await sendRaw(url, beat(address), { halfClose: true })).toMatch(/^HTTP\/1.1 \d/);
    expect(countAnswers(await flood)).toBeLessThan(2_000);
  });

  it('the service clock goes on, because the api reaches its own port', async () => {
    const decided = async () => {
      const { rows } = await api.pool.query<{ decided_ms: number }>('select decided_ms from service_clock');
      return rows[0]?.decided_ms ?? 0;
    };
    const before = await waitFor(decided, { what: 'the clock runs' });
    await waitFor(async () => (await decided()) > before + 2_000, { what: 'the clock goes on' });
  });

  const list = async (apiUrl: string, caFile: string | undefined) => {
    const client = new RestClient({ apiUrl, caFile, tokenFile: join(folder.path, 'token') });
    try {
      return await client.call('listProjects', { query: {} }).then(
        ({ status }) => String(status),
        (error: Error) => error.message,
      );
    } finally {
      await client.close();
    }
  };

  it('the operator calls it only where its authority has certified the name, and knows a new authority at once', async () => {
    expect(await list(url, AUTHORITY_FILE)).toBe('200');
    expect(await list(url.replace('127.0.0.1', 'localhost'), AUTHORITY_FILE)).toBe('200');
    expect(await list(url.replace('127.0.0.1', '127.0.0.2'), AUTHORITY_FILE)).toContain('altnames');
    for (const file of [FOREIGN_AUTHORITY_FILE, undefined])
      expect(await list(url, file)).toContain('unable to verify');
    const file = join(folder.path, 'ca.crt');
    const client = new RestClient({ apiUrl: url, caFile: file, tokenFile: join(folder.path, 'token') });
    const call = () =>
      client.call('listProjects', { query: {} }).then(
        ({ status }) => status,
        () => 0,
      );
    expect(await call()).toBe(0);
    await place(AUTHORITY_FILE, file);
    await waitFor(async () => (await call()) === 200, { what: 'the authority is known' });
    await client.close();
  });
});

it('calls of the process itself that its bound of connections refuses count as read, and lose nobody', async () => {
  const { options } = await ServedCertificate.read(folder.path);
  const server = makeServer((_request, response) => response.end(), options);
  server.maxConnections = 1;
  const { port, close } = await listen(server);
  const held = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(held, 'secureConnect');
  let lost = 0;
  const arrivals = new ArrivalProbe(() => {
    lost += 1;
  });
  arrivals.watch(server, () => Number.POSITIVE_INFINITY);
  const startedAt = performance.now();
  server.emit('listening'); // it listens already
  await waitFor(() => arrivals.knownAt > startedAt + 500, { what: 'calls that were refused in their turn' });
  expect(lost).toBe(0);
  arrivals.stop();
  await close();
});

it('an api does not start with a certificate that cannot be served, and says which folder has it', async () => {
  const broken = await makeServedFolder();
  await broken.put('api', 'renewed-api');
  const config = makeConfig('postgresql://127.0.0.1:9/none', { tlsFolder: broken.path });
  const telemetry = createTelemetry({ role: 'api', logLevel: 'silent' });
  await expect(startApi(config, telemetry)).rejects.toThrow(
    `${broken.path} has no certificate that can be served`,
  );
  await broken.remove();
});

describe('a certificate that is renewed', () => {
  let listening: Listening;
  let certificate: ServedCertificate;
  let lines: string[];
  beforeEach(async () => {
    await folder.put('api');
    lines = [];
    const log = createLog({ role: 'test', level: 'info' }, { write: (line) => void lines.push(line) });
    certificate = await ServedCertificate.read(folder.path);
    const server = makeServer((_request, response) => response.end('here'), certificate.options);
    listening = await listen(server);
    if (!(server instanceof Server)) throw new Error('The server does not speak TLS.');
    certificate.keepFresh(server, log, 20);
  });
  afterEach(async () => {
    certificate.stop();
    await listening.close();
  });
  const open = async (options = {}) => {
    const to = { port: listening.port, host: '127.0.0.1', rejectUnauthorized: false };
    const socket = connect({ ...to, ...options });
    await once(socket, 'secureConnect');
    return socket;
  };
  const served = async () => {
    const socket = await open();
    const { CN } = socket.getPeerCertificate().subject;
    socket.destroy();
    return CN;
  };

  it('new connections get it without a restart, and open ones go on', async () => {
    const before = await open();
    expect(await served()).toBe('api');
    await folder.put('renewed-api');
    await waitFor(async () => (await served()) === 'renewed-api', { what: 'the new certificate' });
    before.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    expect(String((await once(before, 'data'))[0])).toContain('200 OK');
    before.destroy();
    const tooOld = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' };
    await expect(open(tooOld)).rejects.toThrow();
  });

  it('one that cannot be used leaves the last one in use, and is logged', async () => {
    await folder.put('renewed-api', 'api');
    await waitFor(() => lines.some((line) => line.includes('cannot be used')), { what: 'the warning' });
    expect(await served()).toBe('api');
    await folder.put('renewed-api');
    await waitFor(async () => (await served()) === 'renewed-api', { what: 'the whole one' });
  });
});
