// Programs that a benchmark runs beside the product: which are installed, and what they print.
import { type SpawnOptions, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { percentile } from './table.ts';

/** Runs a program to its end and returns what it printed. */
export async function outputOf(
  command: string,
  args: string[],
  options: Pick<SpawnOptions, 'cwd' | 'env'> = {},
): Promise<string> {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  let errors = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    errors = (errors + chunk.toString()).slice(-2_000);
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${output}${errors}`);
  return output;
}

export async function isInstalled(command: string): Promise<boolean> {
  const child = spawn(command, ['--version'], { stdio: 'ignore' });
  return await new Promise((resolve) => {
    child.once('error', () => resolve(false));
    child.once('exit', () => resolve(true));
  });
}

export interface PgbenchRun {
  databaseUrl: string;
  /** A file of statements. */
  script: string;
  clients: number;
  /** How long, or how much: `-T 4`, `-t 100`. */
  extent: readonly [string, number];
}

/** Transactions a second, as prepared statements. Undefined when pgbench is not installed or fails. */
export async function runPgbench(run: PgbenchRun): Promise<number | undefined> {
  const program = await findPgbench();
  if (!program) return undefined;
  const output = await outputOf(program, argumentsOf(run)).catch(() => '');
  const perSecond = Number(/tps = ([\d.]+)/.exec(output)?.[1] ?? 0);
  return perSecond > 0 ? perSecond : undefined;
}

function argumentsOf({ databaseUrl, script, clients, extent }: PgbenchRun): string[] {
  const args = ['-n', '-M', 'prepared', '-c', String(clients), '-j', '1', ...extent.map(String)];
  return [...args, '-f', script, databaseUrl];
}

export interface PgbenchLatencies {
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
}

/** As `runPgbench`, with the latencies of its transactions; throws without pgbench. Writes its log into `folder`. */
export async function readPgbenchLatencies(run: PgbenchRun, folder: string): Promise<PgbenchLatencies> {
  const program = await findPgbench();
  if (!program) throw new Error('pgbench is not installed: it comes with the postgresql package.');
  const prefix = join(folder, `pgbench-${randomUUID()}`);
  const output = await outputOf(program, ['-l', '--log-prefix', prefix, ...argumentsOf(run)]);
  const logs = (await readdir(folder)).filter((name) => join(folder, name).startsWith(prefix));
  const lines = await Promise.all(logs.map(async (name) => await readFile(join(folder, name), 'utf8')));
  // Each line: client, transaction, microseconds, …
  const times = [...lines.join('').matchAll(/^\d+ \d+ (\d+) /gm)].map(([, time]) => Number(time) / 1_000);
  times.sort((a, b) => a - b);
  return {
    perSecond: Number(/tps = ([\d.]+)/.exec(output)?.[1]),
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
  };
}

async function findPgbench(): Promise<string | undefined> {
  const versions = [18, 17, 16, 15].map((version) => `/usr/lib/postgresql/${version}/bin/pgbench`);
  for (const place of ['pgbench', ...versions]) if (await isInstalled(place)) return place;
  return undefined;
}
