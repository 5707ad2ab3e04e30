// Counts the source files that a trip through the product enters at run time. The product runs as it is installed, one
// process per role, and V8 counts the calls in it. No source file but src/main.ts is named here.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { findFreePort } from '../../src/dev/processes/free-port.ts';
import { waitFor } from '../support/wait-for.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const AGENT = new URL('coverage-agent.ts', import.meta.url).href;

/** Background timers fall into one or two of these runs; a function of the trip is called in all of them. */
const RUNS = 5;
/** Beats take turns on several connections, which open one by one. */
const WARM_UPS = 4;

export interface CalledFunction {
  /** Below src/. */
  file: string;
  name: string;
  /** Offset in the file. */
  start: number;
}

export interface Trip {
  /** Runs from the first to the last step that counts. */
  run(): Promise<unknown>;
  /** Waits until nothing of a run is left to do. */
  settle?(): Promise<unknown>;
}

/** A process of the product whose calls are counted. */
export class CountedProcess {
  readonly port: number;
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.#exited = once(child, 'exit');
    this.port = port;
  }

  /** Starts a role and resolves when it is ready. `env`: its settings, without host and port. */
  static async start(role: string, env: Record<string, string>): Promise<CountedProcess> {
    const port = await findFreePort();
    const healthPort = await findFreePort(new Set([port]));
    const child = fork(MAIN, [role], {
      execArgv: ['--import', AGENT],
      env: {
        PATH: process.env.PATH,
        HOST: '127.0.0.1',
        PORT: String(port),
        BEATKEEPER_HEALTH_PORT: String(healthPort),
        BEATKEEPER_LOG_LEVEL: 'warn',
        ...env,
      },
    });
    const counted = new CountedProcess(child, port);
    const isReady = async () => {
      if (child.exitCode !== null) return { failed: true };
      return (await fetch(`http://127.0.0.1:${healthPort}/readyz`)).ok && { failed: false };
    };
    const { failed } = await waitFor(isReady, { what: `the ${role} is ready` });
    if (failed) throw new Error(`The ${role} ended with ${child.exitCode}.`);
    return counted;
  }

  /** Warms the trip up, then returns the files below src/ in which a function was called in every run. */
  async count({ run, settle = () => Promise.resolve() }: Trip): Promise<string[]> {
    for (let index = 0; index < WARM_UPS; index += 1) {
      await run();
      await settle();
    }
    const runs: CalledFunction[][] = [];
    for (let index = 0; index < RUNS; index += 1) {
      await this.#takeCalled(); // calls before the run do not count
      await run();
      runs.push(await this.#takeCalled());
      await settle();
    }
    return filesOf(runs);
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGTERM');
    await this.#exited;
  }

  async #takeCalled(): Promise<CalledFunction[]> {
    const answer = once(this.#child, 'message');
    this.#child.send('take');
    const [called] = (await answer) as [CalledFunction[]];
    return called;
  }
}

function filesOf(runs: readonly CalledFunction[][]): string[] {
  const keyOf = ({ file, name, start }: CalledFunction) => `${file} ${name} ${start}`;
  const keys = runs.map((called) => new Set(called.map(keyOf)));
  const inAll = (runs[0] ?? []).filter((called) => keys.every((run) => run.has(keyOf(called))));
  return [...new Set(inAll.map(({ file }) => file))].sort();
}
