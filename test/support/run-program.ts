// Runs a program to its end: one of somebody else (kubectl, helm, docker, a compiler), or a role of the product.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

export interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

export interface ProgramOptions {
  /** The program's folder; else this process's. */
  cwd?: string;
  /** Its whole environment; else this process's. */
  env?: NodeJS.ProcessEnv;
  /** What it can read on its standard input. */
  input?: string;
}

/**
 * Runs a program to its end. An exit code is an outcome; throws Node's error where the program is not there, a signal
 * ended it or it said more than 64 MiB.
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
    child.stdin?.on('error', () => undefined); // it may end before it has read: its exit code says whether that is well
    child.stdin?.end(input);
  });
}

/** Runs `node src/main.ts <role>`, as a container would. `env` is all that the process gets, but for PATH. */
export function runRole(args: readonly string[], env: Record<string, string>): Promise<Outcome> {
  return runProgram(process.execPath, [MAIN, ...args], { env: { PATH: process.env.PATH, ...env } });
}
