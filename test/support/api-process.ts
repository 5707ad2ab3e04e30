// An api in a process of its own, for tests of what fits into its memory, and of what it leaves when it is killed.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('./api-program.ts', import.meta.url));

export interface ApiProcess {
  url: string;
  /** The most memory that it has had, in bytes. */
  memory(): Promise<number>;
  /** It dies at once, whatever it does. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

export interface ApiProcessOptions {
  databaseUrl: string;
  heapMegabytes?: number;
}

export async function startApiProcess({
  databaseUrl,
  heapMegabytes,
}: ApiProcessOptions): Promise<ApiProcess> {
  const execArgv = heapMegabytes === undefined ? [] : [`--max-old-space-size=${heapMegabytes}`];
  const child = fork(PROGRAM, [databaseUrl], { execArgv });
  const ended = once(child, 'exit');
  const next = async () => ((await once(child, 'message')) as [number])[0];
  const port = await next();
  return {
    url: `http://127.0.0.1:${port}`,
    memory: async () => {
      child.send('memory');
      return await next();
    },
    kill: async () => {
      child.kill('SIGKILL');
      await ended;
    },
    close: async () => {
      if (child.connected) child.disconnect();
      await ended;
    },
  };
}

/** An api whose heap is small, while `work` runs. */
export async function withSmallApi(
  options: Required<ApiProcessOptions>,
  work: (api: ApiProcess) => Promise<void>,
): Promise<void> {
  const api = await startApiProcess(options);
  try {
    await work(api);
  } finally {
    await api.close();
  }
}
