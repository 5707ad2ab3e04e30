// A Postgres server of a run's own: makes its data folder and the command that serves it.
// Who starts, watches and restarts the process is the caller's business.
import { type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { waitFor } from '../processes/wait-for.ts';
import { dataOwnerId, type PostgresBinaries, serverUser } from './postgres-binaries.ts';

export const POSTGRES_SUPERUSER = 'postgres';

export interface PostgresOptions {
  binaries: PostgresBinaries;
  /** The data folder; made on first use. */
  dataFolder: string;
  port: number;
  password: string;
  /** False in tests alone: no fsync, so that a crash of the machine may lose data. */
  durable: boolean;
  /** Of the program that makes the data folder: with the run's mark, so that the end of the run ends it too. */
  env: NodeJS.ProcessEnv;
}

export interface ServerCommand {
  command: string;
  args: string[];
  options: SpawnOptions;
}

/** Makes the data folder if there is none (half-made ones are made again) and returns the command to run. */
export async function preparePostgres(postgres: PostgresOptions): Promise<ServerCommand> {
  const { binaries, dataFolder, port, durable } = postgres;
  const user = await serverUser([binaries.postgres, dataFolder]);
  const run = (program: string, args: string[]): ServerCommand => {
    const [command = program, ...before] = [...user.prefix, program];
    return { command, args: [...before, ...args], options: { ...ids(user), cwd: dataFolder } };
  };
  const complete = await readFile(join(dataFolder, 'beatkeeper-complete'), 'utf8').catch(() => undefined);
  if (complete === undefined) await initialise(postgres, run);
  const settings = durable
    ? ['fsync=on', 'synchronous_commit=on', 'full_page_writes=on']
    : ['fsync=off', 'synchronous_commit=on', 'full_page_writes=off', 'max_wal_size=4GB'];
  return run(binaries.postgres, [
    ...['-D', dataFolder, '-p', String(port)],
    ...[
      'listen_addresses=127.0.0.1',
      'unix_socket_directories=',
      'max_connections=400',
      'timezone=UTC',
      ...settings,
    ]
      // A hung or killed client's connection is noticed, so that its locks do not stay.
      .concat('tcp_keepalives_idle=10', 'client_connection_check_interval=10s')
      .flatMap((setting) => ['-c', setting]),
  ]);
}

function ids({ uid, gid }: { uid?: number; gid?: number }): SpawnOptions {
  return uid === undefined ? {} : { uid, gid };
}

async function initialise(
  { binaries, dataFolder, password, durable, env }: PostgresOptions,
  run: (program: string, args: string[]) => ServerCommand,
): Promise<void> {
  await rm(dataFolder, { recursive: true, force: true });
  await mkdir(dataFolder, { recursive: true, mode: 0o700 });
  const passwordFile = `${dataFolder}.password`;
  await writeFile(passwordFile, password, { mode: 0o600 });
  const owner = dataOwnerId();
  if (owner !== undefined) {
    await chown(dataFolder, owner, owner);
    await chown(passwordFile, owner, owner);
  }
  const { command, args, options } = run(binaries.initdb, [
    ...['-D', dataFolder, '-U', POSTGRES_SUPERUSER, '--pwfile', passwordFile, '--auth', 'scram-sha-256'],
    ...['--encoding', 'UTF8', '--locale-provider', 'builtin', '--locale', 'C.UTF-8'],
    ...(durable ? [] : ['--no-sync']),
  ]);
  const child = spawn(command, args, { ...options, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let words = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    words += chunk.toString();
  });
  const [code] = await once(child, 'exit');
  await rm(passwordFile, { force: true });
  if (code !== 0) throw new Error(`initdb failed: ${words.trim()}`);
  await writeFile(join(dataFolder, 'beatkeeper-complete'), '');
}

/** A connection address of the server on loopback. */
export function postgresUrl(port: number, user: string, password: string, database: string): string {
  return `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`;
}

/** Resolves when the server answers a query. */
export async function waitForPostgres(url: string, timeoutMs: number, signal?: AbortSignal): Promise<void> {
  const probe = async () => {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
    client.on('error', () => undefined); // the server may die under the probe: then the next one tells
    try {
      await client.connect();
      await client.query('select 1');
      return true;
    } finally {
      await client.end().catch(() => undefined);
    }
  };
  await waitFor(probe, { what: 'Postgres answers', timeoutMs, intervalMs: 50, signal });
}
