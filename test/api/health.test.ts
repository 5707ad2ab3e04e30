// Health and metrics of an api: on a port of their own, until the process ends.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findFreePort } from '../../src/dev/processes/free-port.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { openApiFixture } from '../support/api-fixture.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { ENCRYPTION_KEY } from '../support/make-config.ts';
import { runRole } from '../support/run-program.ts';
import { seedCredential } from '../support/seed.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const KEYS = `${ENCRYPTION_KEY.id}:${ENCRYPTION_KEY.key.toString('base64')}`;
const HEALTH_PATHS = ['/livez', '/readyz', '/metrics'];

describe('an api process', () => {
  let fixture: ProjectFixture;
  let child: ChildProcess;
  let publicPort: number;
  let health: string;

  beforeEach(async () => {
    fixture = await openProjectFixture();
    publicPort = await findFreePort();
    const healthPort = await findFreePort(new Set([publicPort]));
    health = `http://127.0.0.1:${healthPort}`;
    child = spawn(process.execPath, [MAIN, 'api'], {
      stdio: 'inherit',
      env: {
        PATH: process.env.PATH,
        HOST: '127.0.0.1',
        PORT: String(publicPort),
        BEATKEEPER_HEALTH_PORT: String(healthPort),
        DATABASE_URL: fixture.databaseUrl,
        BEATKEEPER_ENCRYPTION_KEYS: KEYS,
        BEATKEEPER_DRAIN_SECONDS: '0',
        BEATKEEPER_LOG_LEVEL: process.env.TEST_LOG_LEVEL ?? 'silent',
      },
    });
    await waitFor(async () => (await fetch(`${health}/readyz`)).ok, { what: 'the api is ready' });
  });
  afterEach(async () => {
    if (child.exitCode === null && child.kill('SIGKILL')) await once(child, 'exit');
    await fixture?.close();
  });

  it('a public port answers 404 for health and metrics, which have a port of their own', async () => {
    const unknown = await (await fetch(`http://127.0.0.1:${publicPort}/nowhere`)).json();
    for (const path of HEALTH_PATHS) {
      expect((await fetch(`${health}${path}`)).status, path).toBe(200);
      const answer = await fetch(`http://127.0.0.1:${publicPort}${path}`);
      expect(answer.status, path).toBe(404);
      const { correlationId: _own, ...problem } = (await answer.json()) as { correlationId: string };
      const { correlationId: _other, ...same } = unknown as { correlationId: string };
      expect(problem).toEqual(same);
    }
    expect((await fetch(`${health}/v1/projects`)).status).toBe(404);
    expect(await (await fetch(`${health}/readyz`)).json()).toEqual({
      status: 'ok',
      checks: { database: 'ok', schema: 'ok' },
    });
  });

  it('an ending api says so on its health port until its last call is answered', async () => {
    const token = await seedCredential(fixture.pool, {
      projectId: fixture.project.projectId,
      preset: 'manage',
    });
    const call = await beginCall(publicPort, token);
    child.kill('SIGTERM');
    await waitFor(() => refuses(publicPort), { what: 'the public port is closed' });
    const answer = await fetch(`${health}/readyz`);
    expect(answer.status).toBe(503);
    expect(await answer.json()).toEqual({ status: 'ending', checks: {} });
    expect((await fetch(`${health}/livez`)).status).toBe(200);
    const exited = once(child, 'exit');
    expect(await call.finish()).toContain('HTTP/1.1 201');
    expect(await exited).toEqual([0, null]);
    expect(await refuses(Number(new URL(health).port))).toBe(true);
  });
});

it('an api whose two ports are one does not start and says so', async () => {
  const { code, stderr } = await runRole(['api'], {
    PORT: '8081',
    DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none',
    BEATKEEPER_ENCRYPTION_KEYS: KEYS,
  });
  expect(code).toBe(1);
  expect(stderr).toContain('BEATKEEPER_HEALTH_PORT is the port of PORT');
});

describe('an api that has too much to do', () => {
  it('health and metrics are answered while calls are shed', async () => {
    const api = await openApiFixture({ config: { maxEventLoopDelayMs: 50 } });
    const isReady = async () => (await fetch(`${api.healthUrl}/readyz`)).ok;
    await waitFor(isReady, { what: 'the api is ready' });
    // The api runs in this process.
    const load = setInterval(() => stall(100), 1);
    try {
      const isShed = async () => (await api.viewer.call('listProjects')).status === 503;
      await waitFor(isShed, { what: 'a call is refused' });
      for (const path of HEALTH_PATHS) {
        expect((await fetch(`${api.healthUrl}${path}`)).status, path).toBe(200);
      }
      expect(await isShed()).toBe(true);
    } finally {
      clearInterval(load);
      await api.close();
    }
  });
});

describe('an api whose calls have every connection of the pool', () => {
  it('it stays ready, so that beats still reach it', async () => {
    const api = await openApiFixture({ config: { databasePool: 2 } });
    const holder = await api.pool.connect();
    try {
      await holder.query('begin');
      await holder.query('lock table callback_endpoints in access exclusive mode');
      let answered = 0;
      const calls = [api.manage, api.other.manage, api.manage, api.other.manage].map(async (client) => {
        await client.call('listCallbacks');
        answered += 1;
      });
      await waitFor(async () => (await countWaiting(api.pool)) === 2, { what: 'every connection waits' });
      const answer = await fetch(`${api.healthUrl}/readyz`);
      expect(await answer.json()).toEqual({ status: 'ok', checks: { database: 'ok', schema: 'ok' } });
      expect(answered).toBe(0);
      await holder.query('rollback');
      await Promise.all(calls);
    } finally {
      holder.release(true);
      await api.close();
    }
  });
});

it('an api that starts while its database is away is not ready, and ready once the schema is found', async () => {
  let proxy: TcpProxy | undefined;
  const api = await openApiFixture({
    databaseUrl: async (url) => {
      proxy = await TcpProxy.start(url);
      await proxy.refuse();
      return proxy.url;
    },
  });
  try {
    const answer = await fetch(`${api.healthUrl}/readyz`);
    expect(answer.status).toBe(503);
    expect(await answer.json()).toEqual({
      status: 'failing',
      checks: { database: 'failing', schema: 'failing' },
    });
    await proxy?.accept();
    await waitFor(async () => (await fetch(`${api.healthUrl}/readyz`)).ok, { what: 'the api is ready' });
  } finally {
    await proxy?.accept();
    await api.close();
    await proxy?.close();
  }
});

async function countWaiting(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from pg_stat_activity
     where datname = current_database() and application_name = 'beatkeeper-api' and wait_event_type = 'Lock'`,
  );
  return rows[0]?.count ?? 0;
}

interface BegunCall {
  /** Sends the rest, and resolves to the answer. */
  finish(): Promise<string>;
}

/** A call whose body is not there yet. Resolves when the api waits for it. */
async function beginCall(port: number, token: string): Promise<BegunCall> {
  const body = JSON.stringify({ name: 'last' });
  const socket: Socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk: Buffer) => {
    answer += chunk.toString();
  });
  socket.on('error', () => undefined); // the answer tells
  socket.write(
    `POST /v1/monitors HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\nexpect: 100-continue\r\n` +
      `idempotency-key: last\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`,
  );
  await waitFor(() => answer.includes('HTTP/1.1 100'), { what: 'the api waits for the body' });
  return {
    async finish() {
      socket.write(body);
      await once(socket, 'close');
      return answer;
    },
  };
}

function refuses(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(false);
    });
    socket.on('error', () => resolve(true));
  });
}

function stall(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}
