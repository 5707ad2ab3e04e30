// Prepares a Postgres server on loopback: its data folder and its command. The caller starts, watches and restarts the
// process.
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
  /** The data folder, created at the first use. */
  dataFolder: string;
  port: number;
  password: string;
  /** False only in tests: no fsync, so that a crash of the machine may lose data. */
  durable: boolean;
  /** The environment of initdb. It has the run's mark, so that the end of the run ends initdb too. */
  env: NodeJS.ProcessEnv;
}

export interface ServerCommand {
  command: string;
  args: string[];
  options: SpawnOptions;
}

/** Creates the data folder if it is missing or incomplete, and returns the command to run. */
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
      // The server notices the connection of a hung or killed client, and releases its locks.
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
  let output = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  const [code] = await once(child, 'exit');
  await rm(passwordFile, { force: true });
  if (code !== 0) throw new Error(`initdb failed: ${output.trim()}`);
  await writeFile(join(dataFolder, 'beatkeeper-complete'), '');
}

/** The connection URL of the server on loopback. */
export function postgresUrl(port: number, user: string, password: string, database: string): string {
  return `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`;
}

/** Resolves when the server answers a query. */
export async function waitForPostgres(url: string, timeoutMs: number, signal?: AbortSignal): Promise<void> {
  const probe = async () => {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
    client.on('error', () => undefined); // the server may die during the probe; the next probe will show
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
