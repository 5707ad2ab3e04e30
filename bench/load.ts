// Load from a process of its own: wrk where it is installed, else autocannon (which takes more of the machine itself).
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface LoadResult {
  requestsPerSecond: number;
  /** Whole ones, of any status. */
  answers: number;
  /** Answers that are no 2xx, and connections that broke. */
  failures: number;
}

export interface LoadOptions {
  port: number;
  connections: number;
  seconds: number;
}

/** A closed loop over the paths: each connection sends the next request when it has its answer. */
export class Load {
  readonly #script: string;
  readonly #hasWrk: boolean;
  readonly #paths: readonly string[];

  private constructor(script: string, hasWrk: boolean, paths: readonly string[]) {
    this.#script = script;
    this.#hasWrk = hasWrk;
    this.#paths = paths;
  }

  /** `folder` keeps a file for as long as the load is used. */
  static async prepare(folder: string, paths: readonly string[]): Promise<Load> {
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
