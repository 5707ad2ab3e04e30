// Allows one run at a time per state folder. The lock is a listening socket: the kernel frees it when its process ends
// in any way, and never gives it to two processes.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface StateLock {
  release(): Promise<void>;
}

/** Takes the lock of `folder`, a real path. Throws an Error that names the process which has it. */
export async function lockState(folder: string): Promise<StateLock> {
  const name = `beatkeeper-dev-${createHash('sha256').update(folder).digest('hex').slice(0, 32)}`;
  // Linux has abstract names, which need no file. Elsewhere a crash leaves the file behind.
  const path = process.platform === 'linux' ? `\0${name}` : join(tmpdir(), `${name}.sock`);
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.end(String(process.pid));
  });
  server.unref();
  for (let attempt = 1; ; attempt += 1) {
    try {
      server.listen(path);
      await once(server, 'listening');
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
      const holder = await askHolder(path);
      if (holder !== undefined || attempt === 3) {
        throw new Error(
          `Another run (process ${holder ?? 'unknown'}) uses the state folder ${folder}: end it, or set BEATKEEPER_STATE_DIR to another folder.`,
        );
      }
      if (process.platform !== 'linux') await rm(path, { force: true });
    }
  }
  return {
    async release() {
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}

/** The pid of the process that listens, or undefined if no process answers. */
async function askHolder(path: string): Promise<string | undefined> {
  const socket = connect(path);
  socket.setTimeout(2_000, () => socket.destroy());
  let answer = '';
  try {
    for await (const chunk of socket) answer += String(chunk);
    return answer === '' ? 'unknown' : answer;
  } catch {
    return undefined;
  }
}
