// Picks TCP ports for the processes of a development or test run.
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

// Below the range of source ports for outgoing connections on Linux and macOS: such a connection could take the port of
// a process that died, before that process starts again.
const LOWEST = 10_240;
const HIGHEST = 32_700;

/** Whether a server could listen on `host`:`port` now. */
export function isPortFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** Finds a port on loopback on which no process listens and which no outgoing connection will take. */
export async function findFreePort(avoid: ReadonlySet<number> = new Set()): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt += 1) {
    const port = randomInt(LOWEST, HIGHEST);
    if (!avoid.has(port) && (await isPortFree(port))) return port;
  }
  throw new Error(`Found no free port between ${LOWEST} and ${HIGHEST} on 127.0.0.1.`);
}
