// An ntfy server of a test's own, where the program `ntfy` is on PATH and is the server. ntfy.ts is what tests ask.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findFreePort } from '../../src/dev/processes/free-port.ts';
import { runProgram } from './run-program.ts';
import { runServer } from './run-server.ts';
import { waitFor } from './wait-for.ts';

const STOP_LIMIT_MS = 30_000;

export interface NtfyServer {
  url: string;
  close(): Promise<void>;
}

/** Undefined where there is no such program. It takes messages of everybody, as many as come. */
export async function startNtfyServer(): Promise<NtfyServer | undefined> {
  if (!(await canServe())) return undefined;
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-ntfy-'));
  const [port, config] = [await findFreePort(), join(folder, 'server.yml')];
  const url = `http://127.0.0.1:${port}`;
  await writeFile(config, '');
  const server = runServer(
    {
      command: 'ntfy',
      args: [
        ...['serve', '--config', config, '--base-url', url, '--listen-http', `127.0.0.1:${port}`],
        ...['--visitor-request-limit-exempt-hosts', '127.0.0.1'],
      ],
      options: { cwd: folder },
    },
    { PATH: process.env.PATH },
  );
  const isUp = async () => (await fetch(`${url}/v1/health`).catch(() => undefined))?.ok;
  await Promise.race([waitFor(isUp, { what: 'ntfy answers' }), server.failed]);
  return {
    url,
    close: async () => {
      await server.end('SIGTERM', STOP_LIMIT_MS);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Other programs have that name, and ntfy is built without its server too. */
async function canServe(): Promise<boolean> {
  try {
    const { code, stdout } = await runProgram('ntfy', ['serve', '--help']);
    return code === 0 && stdout.includes('--listen-http');
  } catch {
    return false;
  }
}
