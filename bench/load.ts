// HTTP load from a process of its own: wrk where it is installed, else autocannon, which uses more of the machine itself.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openPool, type Pool } from '../src/store/postgres/pool.ts';
import { type SeedMonitor, seedMonitors, seedProject } from '../test/support/seed.ts';
import type { Environment } from './environment.ts';

/** So many that no monitor reaches the limit of its plan's cadence. */
export const MONITORS = 20_000;

export interface LoadResult {
  requestsPerSecond: number;
  /** Complete answers, of any status. */
  answers: number;
  /** Answers other than 2xx, and broken connections. */
  failures: number;
}

export interface LoadOptions {
  port: number;
  connections: number;
  seconds: number;
}

/** A closed loop over the paths: each connection sends its next request when it has the answer. */
export class Load {
  readonly #script: string;
  readonly #hasWrk: boolean;
  readonly #paths: readonly string[];

  private constructor(script: string, hasWrk: boolean, paths: readonly string[]) {
    this.#script = script;
    this.#hasWrk = hasWrk;
    this.#paths = paths;
  }

  /** A beat to each monitor, again and again. Writes a file into `folder`. */
  static async prepare(folder: string, monitors: readonly SeedMonitor[]): Promise<Load> {
    const paths = monitors.map(({ address }) => `/ping/${address}`);
    const script = join(folder, 'load.lua');
    const list = paths.map((path) => `"${path}"`).join(',\n');
    await writeFile(
      script,
      `local paths = {${list}}\nlocal at = math.random(#paths)\nrequest = function()\n  at = at % #paths + 1\n  return wrk.format("GET", paths[at])\nend\n`,
    );
    return new Load(script, await isInstalled('wrk'), paths);
  }

  get program(): string {
    return this.#hasWrk ? 'wrk' : 'autocannon';
  }

  async run(options: LoadOptions): Promise<LoadResult> {
    return this.#hasWrk ? await this.#runWrk(options) : await this.#runAutocannon(options);
  }

  async #runWrk({ port, connections, seconds }: LoadOptions): Promise<LoadResult> {
    const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', this.#script, `http://127.0.0.1:${port}`];
    const output = await outputOf('wrk', args);
    const number = (pattern: RegExp) => Number(pattern.exec(output)?.[1] ?? 0);
    return {
      requestsPerSecond: number(/Requests\/sec:\s+([\d.]+)/),
      answers: number(/(\d+) requests in /),
      failures: number(/Non-2xx or 3xx responses: (\d+)/) + number(/Socket errors:.*timeout (\d+)/),
    };
  }

  async #runAutocannon({ port, connections, seconds }: LoadOptions): Promise<LoadResult> {
    const { default: autocannon } = await import('autocannon');
    const requests = this.#paths.slice(0, 5_000).map((path) => ({ path }));
    const result = await autocannon({
      url: `http://127.0.0.1:${port}`,
      connections,
      duration: seconds,
      requests,
      workers: 1,
    });
    return {
      requestsPerSecond: result.requests.average,
      answers: result['2xx'] + result.non2xx,
      failures: result.non2xx + result.errors,
    };
  }
}

/** Makes monitors, and a load that beats them. End the pool. */
export async function prepareBeats({
  databaseUrl,
  folder,
}: Environment): Promise<{ pool: Pool; load: Load }> {
  const pool = openPool({ databaseUrl, size: 2, applicationName: 'bench', statementTimeoutMs: 60_000 });
  const monitors = await seedMonitors(pool, await seedProject(pool), MONITORS);
  await pool.query('vacuum analyze');
  return { pool, load: await Load.prepare(folder, monitors) };
}

/** Runs a program to its end and returns what it printed. */
export async function outputOf(command: string, args: string[]): Promise<string> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  child.stderr.resume();
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${output}`);
  return output;
}

export async function isInstalled(command: string): Promise<boolean> {
  const child = spawn(command, ['--version'], { stdio: 'ignore' });
  return await new Promise((resolve) => {
    child.once('error', () => resolve(false));
    child.once('exit', () => resolve(true));
  });
}
