// Connections that send much, and new ones that wait to be accepted: a turn of the event loop accepts one, so what the
// others may send in a turn decides how long it waits.
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeServer, readUpToAt, waitedMs } from '../../src/api/http/server.ts';
import { listen } from '../support/listen.ts';
import { startFlood } from '../support/start-flood.ts';
import { waitFor } from '../support/wait-for.ts';

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'beatkeeper-flood-'));
  await writeFile(join(folder, 'addresses'), 'any');
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

it.each([
  { connections: 100, depth: 64 },
  { connections: 2_000, depth: 1 },
])('$connections connections with $depth requests each let new ones in', async (flood) => {
  let read = 0;
  let longestWaitMs = 0;
  const server = makeServer((request, response) => {
    if (request.url === '/new') response.end();
    else {
      read += 1;
      longestWaitMs = Math.max(longestWaitMs, waitedMs(request));
      setImmediate(() => response.end());
    }
  });
  const { port, connections, close } = await listen(server);
  const program = startFlood(join(folder, 'addresses'), { port, ...flood });
  const ended = once(program, 'exit');
  try {
    const isFlooded = () => connections() >= flood.connections && read > 4 * flood.connections * flood.depth;
    await waitFor(isFlooded, { what: 'the flood' });
    const before = read;
    await Promise.all(Array.from({ length: 50 }, () => connectAnew(port)));
    expect(read - before).toBeLessThan(40_000);
    await waitFor(() => readUpToAt(server) < performance.now(), { what: 'one has to wait' });
    expect(longestWaitMs).toBeGreaterThan(0);
  } finally {
    program.kill();
    await ended;
    await close();
  }
  await waitFor(() => readUpToAt(server) === Number.POSITIVE_INFINITY, { what: 'nobody waits' });
});

async function connectAnew(port: number): Promise<void> {
  const [answer] = await once(get({ port, path: '/new', agent: false }), 'response');
  await once(answer.resume(), 'end');
}
