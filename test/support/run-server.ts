// Runs a server for a test run: Postgres, etcd, kube-apiserver.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { ServerCommand } from '../../src/dev/postgres/postgres-server.ts';

export interface RunningServer {
  /** Rejects when the process ends, with the end of what it wrote to standard error. */
  failed: Promise<never>;
  /** Such as SIGSTOP: the process stays, and does nothing. */
  signal(signal: NodeJS.Signals): void;
  /** Sends the signal, and SIGKILL if the process has not ended after `killAfterMs`. */
  end(signal: NodeJS.Signals, killAfterMs: number): Promise<void>;
}

export function runServer({ command, args, options }: ServerCommand, env: NodeJS.ProcessEnv): RunningServer {
  const child = spawn(command, args, { ...options, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-4_000);
  });
  const exited = once(child, 'exit');
  const failed = exited.then((): never => {
    throw new Error(`${command} ended: ${output}`);
  });
  failed.catch(() => undefined); // nobody awaits it after the server has started
  return {
    failed,
    signal: (signal) => void child.kill(signal),
    async end(signal, killAfterMs) {
      child.kill(signal);
      const timer = setTimeout(() => child.kill('SIGKILL'), killAfterMs);
      await exited;
      clearTimeout(timer);
    },
  };
}
