// Connections that send much, and new ones that wait to be accepted: a turn of the event loop accepts one, so what the
// others may send in a turn decides how long it waits.
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { get as getByTls } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SecureContextOptions } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ServedCertificate } from '../../src/api/http/served-certificate.ts';
import { makeServer, readUpToAt, waitedMs } from '../../src/api/http/server.ts';
import { listen } from '../support/listen.ts';
import { makeServedFolder } from '../support/served-folder.ts';
import { startFlood } from '../support/start-flood.ts';
import { waitFor } from '../support/wait-for.ts';

let folder: string;
let certificate: SecureContextOptions;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'beatkeeper-flood-'));
  await writeFile(join(folder, 'addresses'), 'any');
  const served = await makeServedFolder();
  certificate = (await ServedCertificate.read(served.path)).options;
  await served.remove();
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

it.each([
  { connections: 100, depth: 64 },
  { connections: 2_000, depth: 1 },
  { connections: 100, depth: 64, tls: true },
  { connections: 500, depth: 1, tls: true },
])('$connections connections with $depth requests each let new ones in (tls: $tls)', async (flood) => {
  let read = 0;
  let longestWaitMs = 0;
  const server = makeServer(
    (request, response) => {
      if (request.url === '/new') response.end();
      else {
        read += 1;
        longestWaitMs = Math.max(longestWaitMs, waitedMs(request));
        setImmediate(() => response.end());
      }
    },
    flood.tls ? certificate : undefined,
  );
  const { port, connections, close } = await listen(server);
  const program = startFlood(join(folder, 'addresses'), { port, ...flood });
  const ended = once(program, 'exit');
  try {
    const isFlooded = () => connections() >= flood.connections && read > 4 * flood.connections * flood.depth;
    await waitFor(isFlooded, { what: 'the flood' });
    const before = read;
    await Promise.all(Array.from({ length: 50 }, () => connectAnew(port, flood.tls)));
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

async function connectAnew(port: number, isTls = false): Promise<void> {
  const to = { port, path: '/new', agent: false, rejectUnauthorized: false } as const;
  const [answer] = await once(isTls ? getByTls(to) : get(to), 'response');
  await once(answer.resume(), 'end');
}
