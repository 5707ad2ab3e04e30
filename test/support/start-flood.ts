// Starts the program of a flood.
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('flood.ts', import.meta.url));

export interface Flood {
  port: number;
  connections: number;
  /** Beats under way on each connection. */
  depth: number;
  /** The api speaks https. Default false. */
  tls?: boolean;
}

/** `file`: publish addresses, one a line. */
export function startFlood(file: string, { port, connections, depth, tls }: Flood): ChildProcess {
  const more = [port, connections, depth, ...(tls ? ['tls'] : [])].map(String);
  return fork(PROGRAM, [file, ...more], { execArgv: [], env: { PATH: process.env.PATH } });
}
