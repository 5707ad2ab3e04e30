// HTTP load from a process of its own. For the most that a server can do: wrk where it is installed, which uses little of
// the machine, else a closed loop of our own. For latencies: requests at random moments at a given rate, by load-program.ts.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openPool, type Pool } from '../src/store/postgres/pool.ts';
import { type SeedColumns, seedMonitors, seedProject } from '../test/support/seed.ts';
import type { Environment } from './environment.ts';
import { isInstalled, outputOf } from './programs.ts';

const PROGRAM = join(import.meta.dirname, 'load-program.ts');
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

export interface LoadPhase {
  seconds: number;
  /** Without it each connection sends its next request when it has the answer. */
  ratePerSecond?: number;
  /** Ends the phase when so many are answered. */
  requests?: number;
}

export interface LoadOrder {
  port: number;
  connections: number;
  /** One after the other, on the same connections. */
  phases: readonly LoadPhase[];
  /** Header lines of each request, each with its end of line. */
  headers?: string;
  /** Paths, one a line. */
  file: string;
}

/** Of the requests that were due in a phase. */
export interface PhaseResult {
  seconds: number;
  /** Answers of 2xx. */
  ok: number;
  /** Answers of 503. */
  refused: number;
  /** Other answers, broken connections, and requests without an answer. */
  failed: number;
  /** Latencies of the answers of 2xx. */
  p50Ms: number;
  p99Ms: number;
}

/** Requests for the paths, again and again. */
export class Load {
  readonly #file: string;
  readonly #script: string;
  readonly #hasWrk: boolean;

  private constructor(file: string, script: string, hasWrk: boolean) {
    this.#file = file;
    this.#script = script;
    this.#hasWrk = hasWrk;
  }

  /** Writes two files into `folder`, for which `name` is unique. */
  static async prepare(folder: string, paths: readonly string[], name = 'load'): Promise<Load> {
    const file = join(folder, `${name}.txt`);
    const script = join(folder, `${name}.lua`);
    await writeFile(file, `${paths.join('\n')}\n`);
    await writeFile(
      script,
      `local paths = {}\nfor path in io.lines("${file}") do paths[#paths + 1] = path end\nmath.randomseed(os.time())\nlocal at = math.random(#paths)\nrequest = function()\n  at = at % #paths + 1\n  return wrk.format("GET", paths[at])\nend\n`,
    );
    return new Load(file, script, await isInstalled('wrk'));
  }

  get program(): string {
    return this.#hasWrk ? 'wrk' : 'load-program.ts';
  }

  /** A closed loop: each connection sends its next request when it has the answer. */
  async run(options: LoadOptions): Promise<LoadResult> {
    if (this.#hasWrk) return await this.#runWrk(options);
    const { port, connections, seconds } = options;
    const [result] = await this.arrive({ port, connections, phases: [{ seconds }] });
    if (!result) throw new Error('The load has no result.');
    const failures = result.failed + result.refused;
    const answers = result.ok + failures;
    return { requestsPerSecond: answers / seconds, answers, failures };
  }

  async arrive(order: Omit<LoadOrder, 'file'>): Promise<PhaseResult[]> {
    const child = fork(PROGRAM, [JSON.stringify({ ...order, file: this.#file })], { execArgv: [] });
    const ended = once(child, 'exit').then(() => {
      throw new Error('The load ended without a result.');
    });
    ended.catch(() => undefined); // it ends after its result too
    const [results] = (await Promise.race([once(child, 'message'), ended])) as [PhaseResult[]];
    return results;
  }

  async #runWrk({ port, connections, seconds }: LoadOptions): Promise<LoadResult> {
    const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '15s', '-s', this.#script];
    const output = await outputOf('wrk', [...args, `http://127.0.0.1:${port}`]);
    const number = (pattern: RegExp) => Number(pattern.exec(output)?.[1] ?? 0);
    return {
      requestsPerSecond: number(/Requests\/sec:\s+([\d.]+)/),
      answers: number(/(\d+) requests in /),
      failures: number(/Non-2xx or 3xx responses: (\d+)/) + number(/Socket errors:.*timeout (\d+)/),
    };
  }
}

/** Makes monitors, and a load that beats them in a random order. End the pool. */
export async function prepareBeats(
  { databaseUrl, folder }: Environment,
  count = MONITORS,
  columns: SeedColumns = {},
): Promise<{ pool: Pool; load: Load }> {
  const pool = openPool({ databaseUrl, size: 2, applicationName: 'bench', statementTimeoutMs: 60_000 });
  const monitors = await seedMonitors(pool, await seedProject(pool), count, columns);
  await pool.query('vacuum analyze');
  // Addresses are random, so their order is.
  const paths = monitors.map(({ address }) => `/ping/${address}`).sort();
  return { pool, load: await Load.prepare(folder, paths) };
}
