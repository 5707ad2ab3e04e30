// A role of the product in a process of its own, as a container runs it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { findFreePort } from '../../src/dev/processes/free-port.ts';
import type { HealthReport } from '../../src/telemetry/readiness.ts';
import { compileCache } from './compile-cache.ts';
import { waitFor } from './wait-for.ts';

const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url));

export interface RoleProcess {
  pid: number;
  /** Of the public port of `api`. */
  url: string;
  /** Where its health and metrics are. */
  healthUrl: string;
  /** What `/readyz` says, and with which status. */
  readiness(): Promise<HealthReport & { httpStatus: number }>;
  /** Resolves to its exit code when it has ended; null: a signal ended it. */
  exited: Promise<number | null>;
  /** Sends it a signal. */
  signal(signal: NodeJS.Signals): void;
  /** Ends it in order. */
  close(): Promise<void>;
}

/**
 * Resolves when it is ready. It gets `env`, its ports and PATH, and nothing else. `onLine` gets the lines of its log. `folder`
 * has the product, if not this checkout; `nodeArgs` are for Node itself.
 */
export async function startRole(
  role: 'api' | 'sweeper' | 'operator',
  env: Record<string, string>,
  onLine: (line: string) => void = (line) => console.log(line),
  folder = CHECKOUT,
  nodeArgs: string[] = [],
): Promise<RoleProcess> {
  const port = await findFreePort();
  const healthPort = await findFreePort(new Set([port]));
  const child = spawn(process.execPath, [...nodeArgs, join(folder, 'src', 'main.ts'), role], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env.PATH,
      ...compileCache,
      HOST: '127.0.0.1',
      PORT: String(port),
      BEATKEEPER_HEALTH_PORT: String(healthPort),
      BEATKEEPER_DRAIN_SECONDS: '0',
      BEATKEEPER_LOG_LEVEL: process.env.TEST_LOG_LEVEL ?? 'silent',
      ...env,
    },
  });
  createInterface(child.stdout).on('line', onLine);
  const ended = once(child, 'exit');
  const healthUrl = `http://127.0.0.1:${healthPort}`;
  const readiness = async () => {
    const answer = await fetch(`${healthUrl}/readyz`);
    return { httpStatus: answer.status, ...((await answer.json()) as HealthReport) };
  };
  const close = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    await ended;
  };
  try {
    const isReady = waitFor(async () => (await readiness()).httpStatus === 200, {
      what: `the ${role} is ready`,
    });
    isReady.catch(() => undefined); // nobody awaits it after the process has ended
    await Promise.race([isReady, ended.then(() => Promise.reject(new Error(`The ${role} has ended.`)))]);
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
  const exited = ended.then(([code]: (number | null)[]) => code ?? null);
  const signal = (name: NodeJS.Signals) => void child.kill(name);
  const { pid = 0 } = child;
  return { pid, url: `http://127.0.0.1:${port}`, healthUrl, readiness, exited, signal, close };
}
