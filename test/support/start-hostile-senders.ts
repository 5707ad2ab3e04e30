// Starts the program of hostile senders.
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('hostile-program.ts', import.meta.url));

type Attack = 'singleBytes' | 'shortLines' | 'textBomb' | 'jsonBomb' | 'oversized' | 'halfHead' | 'noBody';

export interface HostileSenders {
  port: number;
  /** Of a beat. */
  path: string;
  /** How many connections each has. */
  attacks: Partial<Record<Attack, number>>;
}

export function startHostileSenders({ port, path, attacks }: HostileSenders): ChildProcess {
  const attackers = Object.entries(attacks).map(([name, connections]) => `${name}=${connections}`);
  return fork(PROGRAM, [String(port), path, ...attackers], {
    execArgv: [],
    env: { PATH: process.env.PATH },
  });
}
