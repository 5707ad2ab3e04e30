// Names whose DNS never answers hold up no other name.
import { expect, it } from 'vitest';
import { createNameResolver } from '../../src/delivery/webhook/name-resolver.ts';
import { waitFor } from '../support/wait-for.ts';
import { startDnsServer } from './dns-server.ts';

/** As many as there may be attempts in one process. */
const HANGING = 512;

it('a name is resolved while the DNS of 512 other names does not answer', async () => {
  const dns = await startDnsServer((name, family) => {
    if (name.startsWith('hangs')) return 'silence';
    return family === 4 ? ['127.0.0.1'] : [];
  });
  // Far longer than the others take, on any machine.
  const times = { queryTimeoutMs: 30_000, timeoutMs: 60_000 };
  const resolver = createNameResolver({ servers: [dns.address], hostsText: '', searchDomains: [], ...times });
  let ended = 0;
  const hanging: Promise<unknown>[] = [];
  while (hanging.length < HANGING) {
    const name = `hangs-${hanging.length}.test`;
    hanging.push(
      resolver.resolve(name).catch(() => {
        ended += 1;
      }),
    );
    // The server is in this process, and its socket keeps few packets.
    const areAsked = () => dns.queries.length >= 2 * hanging.length;
    if (hanging.length % 32 === 0) await waitFor(areAsked, { what: 'they are asked', intervalMs: 1 });
  }
  for (let index = 0; index < 20; index += 1) {
    expect(await resolver.resolve(`works-${index}.test`)).toEqual(['127.0.0.1']);
  }
  expect(ended).toBe(0);
  await Promise.all(hanging);
  await dns.close();
});
