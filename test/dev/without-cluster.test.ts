import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { signalProcess } from '../../src/dev/processes/run-processes.ts';
import { fetchServed } from '../support/fetch-served.ts';
import { listen } from '../support/listen.ts';
import { waitFor } from '../support/wait-for.ts';
import { DevelopmentRun, END_LIMIT_MS, makeStateFolder, type ReadyFields } from './development-run.ts';

const HEALTH_PATHS = ['/livez', '/readyz', '/metrics'];

async function status(url: string, token: string): Promise<number> {
  const answer = await fetchServed(url, { headers: { authorization: `Bearer ${token}` } });
  await answer.text();
  return answer.status;
}

async function createMonitor(ready: ReadyFields, monitorId: string) {
  const answer = await fetchServed(`${ready.api}/v1/monitors`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${ready.credential}`,
      'content-type': 'application/json',
      'idempotency-key': `create-${monitorId}`,
    },
    body: JSON.stringify({ monitorId, name: monitorId, intervalSeconds: 60, graceSeconds: 60 }),
  });
  expect(answer.status).toBe(201);
  return (await answer.json()) as { publishUrl: string };
}

const works = (ready: ReadyFields) =>
  waitFor(async () => (await status(`${ready.api}/v1/monitors`, ready.credential)) === 200, {
    what: 'the API answers',
  });

describe('npm run dev without a cluster', () => {
  let state: Awaited<ReturnType<typeof makeStateFolder>>;
  let run: DevelopmentRun;
  let ready: ReadyFields;

  beforeAll(async () => {
    state = await makeStateFolder();
    run = new DevelopmentRun(state.folder, {
      args: ['--no-cluster', '--replicas', '2'],
      // The settings of a user who works with other databases too.
      env: {
        PGHOST: 'nowhere.invalid',
        PGUSER: 'nobody',
        PGSSLMODE: 'require',
        PGOPTIONS: '-c work_mem=none',
      },
    });
    ready = await run.ready();
  });
  afterAll(async () => {
    await run.stop();
    await state.remove();
  });

  test('npm run dev prints only started and ready lines on standard output', () => {
    expect(run.lines.filter((line) => !/^(started|ready) \{.*\}$/.test(line))).toEqual([]);
    expect(run.lines.filter((line) => line.startsWith('ready '))).toHaveLength(1);
    expect(run.pids('postgres')).toHaveLength(1);
    expect(run.pids('api')).toHaveLength(2);
    expect(run.pids('sweeper')).toHaveLength(2);
    expect(run.pids('operator')).toHaveLength(0);
    expect(ready.kubeconfig).toBeUndefined();
  });

  test('npm run dev says where the health of each process is, and no public port serves it', async () => {
    expect(run.healths('postgres')).toEqual([]);
    const healths = ['api', 'sweeper'].flatMap((role) => run.healths(role));
    expect(healths).toHaveLength(4);
    for (const health of healths) {
      for (const path of HEALTH_PATHS) expect((await fetch(`${health}${path}`)).status, path).toBe(200);
    }
    for (const api of ready.apis) {
      for (const path of HEALTH_PATHS) expect((await fetch(`${api}${path}`)).status, path).toBe(404);
    }
  });

  test('npm run dev prints the address and a credential for people on standard error', () => {
    expect(run.stderr).toContain(ready.api);
    expect(run.stderr).toContain(ready.credential);
  });

  test('every api answers each principal by its own rights', async () => {
    expect(ready.apis).toHaveLength(2);
    expect(ready.apis[0]).toBe(ready.api);
    for (const api of ready.apis) {
      expect(await status(`${api}/v1/monitors`, ready.credential)).toBe(200);
      expect(await status(`${api}/v1/monitors`, ready.readCredential)).toBe(200);
      expect(await status(`${api}/v1/credentials`, ready.credential)).toBe(403);
      expect(await status(`${api}/v1/projects`, ready.ownerToken)).toBe(200);
      expect(await status(`${api}/v1/projects`, ready.tokens.member)).toBe(200);
      expect(await status(`${api}/v1/projects`, ready.tokens.viewer)).toBe(200);
      expect(await status(`${api}/v1/projects`, ready.tokens.expired)).toBe(401);
      expect(await status(`${api}/v1/projects/${ready.projectId}`, ready.ownerToken)).toBe(200);
      expect(await status(`${api}/v1/projects/${ready.projectId}`, ready.tokens.otherOwner)).toBe(404);
    }
  });

  test('databaseUrl may inspect everything and create databases, and the database is durable', async () => {
    const client = new pg.Client({ connectionString: ready.databaseUrl });
    await client.connect();
    try {
      const { rows } = await client.query('select name, setting from pg_settings where name = any($1)', [
        ['fsync', 'synchronous_commit', 'full_page_writes'],
      ]);
      expect(rows.map(({ setting }) => setting)).toEqual(['on', 'on', 'on']);
      await client.query('create database scratch');
      await client.query('drop database scratch');
      const found = await client.query('select project_id from projects where project_id = $1', [
        ready.projectId,
      ]);
      expect(found.rowCount).toBe(1);
    } finally {
      await client.end();
    }
  });

  test('a second run on the same state folder exits with 1 and a sentence', async () => {
    const second = new DevelopmentRun(state.folder, { args: ['--no-cluster'] });
    expect((await second.exit()).code).toBe(1);
    expect(second.lines).toEqual([]);
    expect(second.stderr).toContain('Another run');
    await works(ready);
  });

  test.each(['api', 'sweeper', 'postgres'])(
    'npm run dev starts a killed %s again, and the API and beats work',
    async (role) => {
      const others = ['api', 'sweeper', 'postgres'].filter((other) => other !== role);
      const before = others.map((other) => run.pids(other).length);
      const { publishUrl } = await createMonitor(ready, `before-${role}`);
      const healths = run.healths(role);
      await run.killAndAwaitNext(role);
      // In the same places.
      expect(run.healths(role)).toEqual(healths);
      await works(ready);
      await waitFor(async () => (await fetch(publishUrl)).ok, { what: 'a beat is accepted' });
      const read = () => status(`${ready.api}/v1/monitors/before-${role}`, ready.credential);
      await waitFor(async () => (await read()) === 200, { what: 'the monitor is read' });
      // No other role has died with it.
      expect(others.map((other) => run.pids(other).length)).toEqual(before);
    },
  );
});

describe('the life of npm run dev', () => {
  let state: Awaited<ReturnType<typeof makeStateFolder>>;
  let runs: DevelopmentRun[] = [];
  const start = (options: ConstructorParameters<typeof DevelopmentRun>[1] = {}) => {
    const run = new DevelopmentRun(state.folder, { args: ['--no-cluster'], ...options });
    runs.push(run);
    return run;
  };

  beforeAll(async () => {
    state = await makeStateFolder();
  });
  afterEach(async () => {
    for (const run of runs) await run.stop();
    runs = [];
  });
  afterAll(() => state.remove());

  test.each([
    ['SIGINT', 'npm'],
    ['SIGTERM', 'npm'],
    ['SIGINT', 'the group'],
    ['SIGTERM', 'the process'],
  ] as const)('%s to %s ends every process of the run with exit code 0', async (signal, target) => {
    const run = start();
    await run.ready();
    const pid = { npm: run.npmPid, 'the group': -run.npmPid, 'the process': await run.supervisorPid() }[
      target
    ];
    signalProcess(pid, signal);
    const { code, tookMs } = await run.exit();
    expect(code).toBe(0);
    expect(tookMs).toBeLessThan(END_LIMIT_MS);
    expect(await run.leftovers()).toEqual([]);
  });

  test('a signal during the start ends the run with exit code 0', async () => {
    const run = start();
    await waitFor(() => run.pids('postgres').length > 0, { what: 'Postgres is started' });
    signalProcess(run.npmPid, 'SIGTERM');
    expect((await run.exit()).code).toBe(0);
    expect(await run.leftovers()).toEqual([]);
  });

  test('a signal while initdb runs ends the run with exit code 0', async () => {
    const fresh = await makeStateFolder();
    const run = new DevelopmentRun(fresh.folder, { args: ['--no-cluster'] });
    runs.push(run);
    const isBegun = () => existsSync(join(fresh.folder, 'postgres'));
    await waitFor(isBegun, { what: 'the data folder is begun', intervalMs: 5 });
    signalProcess(run.npmPid, 'SIGTERM');
    expect((await run.exit()).code).toBe(0);
    expect(await run.leftovers()).toEqual([]);
    await fresh.remove();
  });

  test('a second start has the same ids, credentials and data as the first', async () => {
    const first = start();
    const one = await first.ready();
    await createMonitor(one, 'kept');
    await first.stop();
    const two = await start().ready();
    for (const field of ['organizationId', 'projectId', 'credential', 'readCredential'] as const) {
      expect(two[field]).toBe(one[field]);
    }
    expect(await status(`${two.api}/v1/monitors/kept`, one.credential)).toBe(200);
    expect(await status(`${two.api}/v1/projects`, one.ownerToken)).toBe(200);
  });

  test('a second start whose ports others have taken meanwhile has the same ids, credentials and tokens', async () => {
    const first = start();
    const one = await first.ready();
    await first.stop();
    const { ports } = JSON.parse(await readFile(join(state.folder, 'state.json'), 'utf8'));
    const others = await Promise.all(
      Object.values<number>(ports).map((port) => listen(createServer(), { port }).catch(() => undefined)),
    );
    try {
      const two = await start().ready();
      expect(two.api).not.toBe(one.api);
      expect(await status(`${two.api}/v1/monitors`, one.credential)).toBe(200);
      expect(await status(`${two.api}/v1/projects`, one.ownerToken)).toBe(200);
    } finally {
      for (const other of others) await other?.close();
    }
  });

  test('the next start after a SIGKILL of every process has the same credential and data', async () => {
    const first = start();
    const one = await first.ready();
    await createMonitor(one, 'survivor');
    signalProcess(-first.npmPid, 'SIGKILL');
    for (const pid of await first.leftovers()) signalProcess(pid, 'SIGKILL');
    const two = await start().ready();
    expect(two.credential).toBe(one.credential);
    expect(await status(`${two.api}/v1/monitors/survivor`, two.credential)).toBe(200);
  });

  test('after a SIGKILL of the supervisor its children end by themselves', async () => {
    const run = start();
    await run.ready();
    signalProcess(-run.npmPid, 'SIGKILL');
    await waitFor(async () => (await run.leftovers()).length === 0, {
      what: 'no process is left',
    });
  });

  test('a start right after a SIGKILL of the supervisor ends the remaining processes and becomes ready', async () => {
    const first = start();
    await first.ready();
    signalProcess(-first.npmPid, 'SIGKILL');
    await start().ready();
  });

  test('a start on a taken port exits with 1 and names the port', async () => {
    const { port, close } = await listen(createServer());
    const run = start({ env: { PORT: String(port) } });
    expect((await run.exit()).code).toBe(1);
    await close();
    expect(run.stderr).toContain(`Port ${port} is taken`);
    expect(run.lines).toEqual([]);
    expect(await run.leftovers()).toEqual([]);
  });

  test('a start on a database with a newer schema exits with 1 and names the version', async () => {
    const first = start();
    const { databaseUrl } = await first.ready();
    const client = new pg.Client({ connectionString: databaseUrl });
    await client.connect();
    await client.query("insert into schema_migrations (version, name) values (9999, '9999-future.sql')");
    await client.end();
    await first.stop();
    const second = start();
    expect((await second.exit()).code).toBe(1);
    expect(second.stderr).toContain('schema version 9999');
    expect(await second.leftovers()).toEqual([]);
  });

  test('an unknown argument exits with 1 and names the options', async () => {
    const run = start({ args: ['--clutser'] });
    expect((await run.exit()).code).toBe(1);
    expect(run.stderr).toContain('--no-cluster');
  });
});
