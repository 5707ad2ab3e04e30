// Runs a program to its end: another project's (kubectl, helm, docker, a compiler), or a role of the product.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDistributed } from '../../src/store/postgres/engine.ts';
import { compileCache } from './compile-cache.ts';

const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url));
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

export interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

export interface ProgramOptions {
  /** Default: this process's folder. */
  cwd?: string;
  /** The whole environment; default: this process's. */
  env?: NodeJS.ProcessEnv;
  /** The program's standard input. */
  input?: string;
}

/**
 * Resolves with the exit code, whatever it is. Rejects with Node's error when there is no such program, a signal ended it,
 * or it wrote more than 64 MiB.
 */
export function runProgram(
  program: string,
  args: readonly string[],
  { input = '', ...options }: ProgramOptions = {},
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      program,
      args,
      { ...options, maxBuffer: MAX_OUTPUT_BYTES },
      (error, stdout, stderr) => {
        if (error === null) resolve({ code: 0, stdout, stderr });
        else if (typeof error.code === 'number') resolve({ code: error.code, stdout, stderr });
        else reject(error);
      },
    );
    child.stdin?.on('error', () => undefined); // it may end before it has read all: its exit code tells whether it failed
    child.stdin?.end(input);
  });
}

/**
 * Runs `node src/main.ts <role>` as a container would. The process gets `env`, PATH and the engine, and nothing else. `folder`
 * has the product, if not this checkout.
 */
export function runRole(
  args: readonly string[],
  env: Record<string, string>,
  folder = CHECKOUT,
): Promise<Outcome> {
  const engine = isDistributed() ? 'citus' : 'postgres';
  return runProgram(process.execPath, [join(folder, 'src', 'main.ts'), ...args], {
    env: { PATH: process.env.PATH, ...compileCache, BEATKEEPER_DATABASE_ENGINE: engine, ...env },
  });
}
