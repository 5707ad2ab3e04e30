// Runs `node src/main.ts <role>` to its end, as a container would.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export interface RoleResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** `env` is all that the process gets, but for PATH. */
export async function runRole(args: readonly string[], env: Record<string, string>): Promise<RoleResult> {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [out, err]: [string[], string[]] = [[], []];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout: out.join(''), stderr: err.join('') };
}
