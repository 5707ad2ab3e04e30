// The HTTP server: connections of all kinds, its end, and a database that fails and recovers.
import { connect, createServer } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { startApi } from '../../src/api/start-api.ts';
import { newUuid } from '../../src/domain/id.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { listen } from '../support/listen.ts';
import { makeConfig } from '../support/make-config.ts';
import { sendRaw } from '../support/raw-http.ts';
import { seedMonitor } from '../support/seed.ts';
import { suspendTimers } from '../support/suspend-timers.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

const get = (path: string, token: string, more = '') =>
  `GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n${more}\r\n`;
const countAnswers = (text: string) => text.split('HTTP/1.1 200').length - 1;

describe('connections', () => {
  let api: ApiFixture;
  beforeAll(async () => {
    api = await openApiFixture({
      config: { maxConnections: 20, dashboardOrigin: 'https://dashboard.example' },
    });
  });
  afterAll(async () => {
    await api?.close();
  });

  it('a call on a half closed connection gets its answer', async () => {
    const answer = await sendRaw(api.url, get('/v1/projects', api.tokens.read), { halfClose: true });
    expect(countAnswers(answer)).toBe(1);
    expect(answer).toContain('"items"');
  });

  it('pipelined calls get every answer, in order', async () => {
    const calls = Array.from({ length: 5 }, (_, index) =>
      get('/v1/projects', api.tokens.read, `x-correlation-id: call-${index}\r\n`),
    );
    const answer = await sendRaw(api.url, calls.join(''), { halfClose: true });
    expect(countAnswers(answer)).toBe(5);
    expect([...answer.matchAll(/x-correlation-id: (\S+)/g)].map(([, id]) => id)).toEqual([
      'call-0',
      'call-1',
      'call-2',
      'call-3',
      'call-4',
    ]);
  });

  it('calls before invalid bytes on a connection get their answers before the refusal', async () => {
    const body = JSON.stringify({ name: 'told' });
    const key = 'idempotency-key: told\r\n';
    const head = `${key}content-type: application/json\r\ncontent-length: ${body.length}\r\n`;
    const create = get('/v1/monitors', api.tokens.manage, head).replace('GET', 'POST') + body;
    const read = get('/v1/projects', api.tokens.read);
    const answer = await sendRaw(api.url, `${read}${create}${body}`);
    expect([...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)).toEqual([
      '200',
      '201',
      '400',
    ]);
    // A broken body gets its refusal at once.
    const chunks = head.replace(/content-length: \d+/, 'transfer-encoding: chunked').replace('told', 'cut');
    const broken = get('/v1/monitors', api.tokens.manage, chunks).replace('GET', 'POST');
    const refusal = await sendRaw(api.url, `${read}${broken}zz\r\n`);
    expect([...refusal.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)).toEqual(['200', '400']);
  });

  it('a call with an unknown expectation is served', async () => {
    const call = get('/v1/projects', api.tokens.read, 'expect: the-unexpected\r\n');
    const answer = await sendRaw(api.url, call, { halfClose: true });
    expect(answer).toContain('HTTP/1.1 200');
    expect(answer).toContain('x-request-id: ');
  });

  it('a connection whose headers take more than ten seconds is ended', async () => {
    const startedAt = performance.now();
    const answer = await sendRaw(api.url, 'GET /v1/projects HTTP/1.1\r\nhost: x\r\n');
    expect(answer).toContain('HTTP/1.1 400');
    expect(answer).toContain('application/problem+json');
    expect(performance.now() - startedAt).toBeGreaterThan(9_000);
  });

  it('a connection over the limit is dropped, and accepted again after others end', async () => {
    const { port } = new URL(api.url);
    const sockets = Array.from({ length: 40 }, () => connect(Number(port), '127.0.0.1'));
    for (const socket of sockets) socket.on('error', () => undefined);
    try {
      const isDropped = async () =>
        sockets.filter((socket) => socket.closed || socket.readableEnded).length >= 20;
      for (const socket of sockets) socket.resume();
      await waitFor(isDropped);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
    await waitFor(async () => (await fetch(`${api.url}/docs`)).ok);
  });

  it("CORS admits credentials from the dashboard's origin and from no other", async () => {
    const preflight = (origin: string) =>
      fetch(`${api.url}/v1/projects`, {
        method: 'OPTIONS',
        headers: {
          origin,
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'authorization,idempotency-key',
        },
      });
    const own = await preflight('https://dashboard.example');
    expect(own.status).toBe(204);
    expect(own.headers.get('access-control-allow-origin')).toBe('https://dashboard.example');
    expect(own.headers.get('access-control-allow-credentials')).toBe('true');
    expect(own.headers.get('access-control-allow-headers')).toContain('idempotency-key');
    const foreign = await preflight('https://evil.example');
    expect(foreign.headers.get('access-control-allow-origin')).toBeNull();
  });

  it('metrics count calls by route and never by path', async () => {
    await api.read.call('getProject', { params: { projectId: 'secret-path' } });
    const text = await (await fetch(`${api.healthUrl}/metrics`)).text();
    expect(text).toMatch(
      /beatkeeper_api_requests_total\{method="GET",route="\/v1\/projects\/:projectId",status="404"\} 1/,
    );
    expect(text).toContain('beatkeeper_api_requests_in_flight');
    expect(text).not.toContain('secret-path');
  });
});

describe('the end of an api', () => {
  const started: ApiFixture[] = [];
  afterEach(async () => {
    await Promise.all(started.splice(0).map((one) => one.close()));
  });

  it('an ending api answers held calls, finishes running ones and takes no more', async () => {
    const api = await openApiFixture();
    started.push(api);
    const replica = await api.startReplica();
    const client = createApiClient({ url: replica.url, token: api.tokens.manage });
    const made = await client.expectSuccess('createMonitor', { body: { name: 'waits' } });
    const params = { monitorId: made.body.monitorId };
    const resumeTimers = suspendTimers(30_000);
    const held = client.call('getFirstBeat', { params, query: { waitSeconds: 30 } });
    const inFlight = async () =>
      (await (await fetch(`${replica.healthUrl}/metrics`)).text()).includes('in_flight 1');
    await waitFor(inFlight);
    const [answer] = await Promise.all([held, replica.close()]).finally(resumeTimers);
    expect(answer.body).toMatchObject({ state: 'waiting' });
    await expect(fetch(`${replica.url}/docs`)).rejects.toThrow();
  });

  it('an ending api is not ready and still serves calls', async () => {
    const api = await openApiFixture();
    started.push(api);
    await waitFor(async () => (await fetch(`${api.healthUrl}/readyz`)).ok, { what: 'the api is ready' });
    api.telemetry.readiness.beginShutdown();
    expect((await fetch(`${api.healthUrl}/readyz`)).status).toBe(503);
    const answer = await api.read.call('listProjects');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('connection')).toBe('close');
  });
});

describe('an api that has too much to do', () => {
  it('an overloaded api refuses calls with Retry-After, but none for the stall of its start', async () => {
    const startedAt = performance.now();
    const api = await openApiFixture({ config: { maxEventLoopDelayMs: 50 } });
    // The api runs in this process.
    const load = setInterval(() => stall(100), 1);
    try {
      const isRefused = async () => {
        const { status, headers, body } = await api.viewer.call('listProjects');
        if (status === 200) return false;
        expect(status).toBe(503);
        expect(body).toMatchObject({ code: 'service.temporarily_unavailable' });
        expect(headers.get('retry-after')).toBe('1');
        // Beats are not shed: nobody has this address.
        expect((await fetch(`${api.url}/ping/${newUuid()}`)).status).toBe(404);
        const refused = 'POST /v1/monitors HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}';
        const last = `GET /ping/${newUuid()} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`;
        expect((await sendRaw(api.url, refused + last)).split('HTTP/1.1 ').length - 1).toBe(2);
        return true;
      };
      await waitFor(isRefused, { what: 'a call is refused' });
      expect(performance.now() - startedAt).toBeGreaterThan(5_000);
    } finally {
      clearInterval(load);
      await api.close();
    }
  });
});

function stall(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe('without its database', () => {
  let proxy: TcpProxy;
  let api: ApiFixture;
  beforeAll(async () => {
    api = await openApiFixture({
      databaseUrl: async (url) => {
        proxy = await TcpProxy.start(url);
        return proxy.url;
      },
    });
  });
  afterAll(async () => {
    await proxy?.accept();
    // Connections that a failed test left open would delay the end.
    proxy?.reset();
    await api?.close();
    await proxy?.close();
  });

  const readReport = async () =>
    (await (await fetch(`${api.healthUrl}/readyz`)).json()) as Awaited<
      ReturnType<typeof api.telemetry.readiness.readReadiness>
    >;
  const expectUnavailable = async () => {
    for (const call of [
      api.read.call('listMonitors'),
      api.owner.call('createProject', { body: { name: 'while away' } }),
    ]) {
      const { problem, headers } = await call;
      expect(problem).toMatchObject({
        status: 503,
        code: 'service.temporarily_unavailable',
        retryable: true,
      });
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
      expect(problem?.detail).not.toMatch(/ECONN|127\.0\.0\.1|postgres/i);
    }
    expect((await fetch(`${api.healthUrl}/livez`)).status).toBe(200);
    const noticed = async () => {
      // Unready, no beat would reach it, and it could not remember that it had to refuse one.
      expect((await fetch(`${api.healthUrl}/readyz`)).status).toBe(200);
      return (await readReport()).status === 'degraded';
    };
    await waitFor(noticed, { what: 'its readiness says that the database is away' });
  };
  const expectWell = async () => {
    await waitFor(async () => (await api.read.call('listMonitors')).status === 200);
    const isWell = async () => (await readReport()).status === 'ok';
    await waitFor(isWell, { what: 'the api is well' });
  };

  it('an api without its database answers 503, stays ready and alive, and recovers with the database', async () => {
    await expectWell();
    await proxy.refuse();
    await expectUnavailable();
    await proxy.accept();
    await expectWell();
  });

  it('an api without its database logs once in some seconds, not for each request', async () => {
    await expectWell();
    const warn = vi.spyOn(api.telemetry.log, 'warn');
    await proxy.refuse();
    const startedAt = performance.now();
    for (let call = 0; call < 20; call += 1) {
      expect((await api.read.call('listMonitors')).status).toBe(503);
    }
    const told = warn.mock.calls.filter(([, words]) => words === 'A request could not be served.');
    expect(told.length).toBeLessThanOrEqual(1 + (performance.now() - startedAt) / 4_000);
    warn.mockRestore();
    await proxy.accept();
    await expectWell();
  });

  it('an api gives up hung connections and opens new ones', async () => {
    await expectWell();
    proxy.blackHole();
    expect((await api.read.call('listMonitors')).status).toBe(503);
    proxy.forward();
    await expectWell();
  });

  it('a write whose answer was cut off takes effect once: its key finds out', async () => {
    await expectWell();
    for (let bytes = 1; bytes < 600; bytes += 23) {
      const request = { body: { name: `torn-${bytes}` }, idempotencyKey: `torn-${bytes}` };
      proxy.resetAfter(bytes);
      const answer = await waitFor(async () => {
        const one = await api.owner.call('createProject', request);
        return one.problem?.retryable ? undefined : one;
      });
      expect([200, 201]).toContain(answer.status);
    }
    const { rows } = await api.pool.query("select name from projects where name like 'torn-%'");
    expect(rows).toHaveLength(Math.ceil(599 / 23));
  });
});

describe('the start of an api', () => {
  let api: ApiFixture;
  beforeAll(async () => {
    api = await openApiFixture();
  });
  afterAll(async () => {
    await api?.close();
  });
  const start = (port: number) =>
    startApi(makeConfig(api.databaseUrl, { port }), createTelemetry({ role: 'api', logLevel: 'silent' }));

  it('an api does not start on a port that is taken', async () => {
    const { port, close } = await listen(createServer());
    await expect(start(port)).rejects.toThrow('EADDRINUSE');
    await close();
  });

  it('the first beat after a start finds its address loaded and a lane connected', async () => {
    const { address } = await seedMonitor(api.pool, api);
    const countLanes = async () =>
      (
        await api.pool.query(
          "select from pg_stat_activity where application_name = 'beatkeeper-ingest' and datname = current_database()",
        )
      ).rowCount ?? 0;
    const before = await countLanes();
    const replica = await api.startReplica();
    expect(await countLanes()).toBe(before + 2);
    const holder = await api.pool.connect();
    await holder.query('begin; lock table publish_addresses in access exclusive mode');
    expect((await fetch(`${replica.url}/ping/${address}`)).status).toBe(200);
    holder.release(true);
    await replica.close();
  });

  it('an api does not start on a database that may lose acknowledged beats', async () => {
    const name = new URL(api.databaseUrl).pathname.slice(1);
    await api.pool.query(`alter database ${name} set synchronous_commit = off`);
    await expect(start(0)).rejects.toThrow('synchronous_commit');
  });
});
