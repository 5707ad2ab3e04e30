// Where a webhook may lead when it is sent: hostile hosts, and a name whose address changes.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseAllowedDestinations } from '../../src/delivery/webhook/allowed-destinations.ts';
import { checkDestination } from '../../src/delivery/webhook/destination.ts';
import { createNameResolver, type NameResolver } from '../../src/delivery/webhook/name-resolver.ts';
import { newSigningSecret } from '../../src/delivery/webhook/signature.ts';
import { WebhookSender } from '../../src/delivery/webhook/webhook-sender.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { type DnsAnswer, type DnsServer, startDnsServer } from './dns-server.ts';
import { HOSTILE_LITERALS, HOSTILE_NAMES, HOSTILE_SPELLINGS } from './hostile-hosts.ts';

/** 127.0.0.1 stands for the receiver's own address, 127.0.0.2 for an inner one: the same port listens on both. */
const GOOD = '127.0.0.1';
const INNER = '127.0.0.2';
const SECRETS = [newSigningSecret()];

let answers: (family: 4 | 6) => DnsAnswer;
let dns: DnsServer;
let receiver: Receiver;
let inner: Receiver;
let resolver: NameResolver;
let attempts: WebhookSender;

beforeEach(async () => {
  answers = (family) => (family === 4 ? [GOOD] : []);
  dns = await startDnsServer((name, family) => {
    if (name === 'rebind.test') return answers(family);
    const addresses = HOSTILE_NAMES[name];
    if (addresses === undefined) return 'nxdomain';
    return addresses.filter((address) => address.includes(':') === (family === 6));
  });
  receiver = await startReceiver((response) => response.end('ok'));
  inner = await startReceiver((response) => response.end('inner'), {
    host: INNER,
    port: receiver.port,
  });
  resolver = createNameResolver({
    servers: [dns.address],
    hostsText: '',
    searchDomains: [],
    queryTimeoutMs: 5_000,
  });
  attempts = new WebhookSender({ allowed: parseAllowedDestinations(GOOD), resolver });
});

afterEach(async () => {
  await attempts.close();
  await Promise.all([receiver.close(), inner.close(), dns.close()]);
});

const send = (url: string) => attempts.send({ url, webhookId: 'msg_1', body: '{}', secrets: SECRETS });
const rebindUrl = (): string => `http://rebind.test:${receiver.port}/hook`;

describe('a name whose address changes', () => {
  it('a name that leads inside after its endpoint was created is refused at the next send', async () => {
    const allowed = parseAllowedDestinations(GOOD);
    await checkDestination(rebindUrl(), { allowed, resolver });
    answers = (family) => (family === 4 ? [INNER] : []);
    expect(await send(rebindUrl())).toMatchObject({ delivered: false, error: 'destination_rejected' });
    expect(inner.connections()).toBe(0);
  });

  it('a name is resolved once per attempt, and the connection goes to the checked address', async () => {
    let asked = 0;
    answers = (family) => {
      if (family === 6) return [];
      asked += 1;
      return asked === 1 ? [GOOD] : [INNER];
    };
    expect(await send(rebindUrl())).toMatchObject({ delivered: true, body: 'ok' });
    expect(dns.queries).toEqual(expect.arrayContaining(['rebind.test/4', 'rebind.test/6']));
    expect(dns.queries).toHaveLength(2);
    expect(inner.connections()).toBe(0);
  });

  it('a name that leads inside is refused even while a connection to its good address is open', async () => {
    expect(await send(rebindUrl())).toMatchObject({ delivered: true });
    answers = (family) => (family === 4 ? [INNER] : []);
    expect(await send(rebindUrl())).toMatchObject({ delivered: false, error: 'destination_rejected' });
    answers = (family) => (family === 4 ? [GOOD] : []);
    expect(await send(rebindUrl())).toMatchObject({ delivered: true });
    // There is one connection, unless the machine stood still until idle ones ended.
    expect(receiver.connections()).toBeLessThanOrEqual(2);
    expect(inner.connections()).toBe(0);
  });

  it.each([
    ['a good and a bad address', [GOOD, INNER], []],
    ['a bad address of the other family', [GOOD], ['fd00::1']],
    ['a mapped address', [], ['::ffff:127.0.0.1']],
    ['a bad address first', [INNER, GOOD], ['::1']],
  ])('a name is refused when it resolves to addresses such as: %s', async (_name, ipv4, ipv6) => {
    answers = (family) => (family === 4 ? ipv4 : ipv6);
    expect(await send(rebindUrl())).toMatchObject({ delivered: false, error: 'destination_rejected' });
    expect(receiver.connections() + inner.connections()).toBe(0);
  });

  it('a name that flips a hundred times is called at its good address alone', async () => {
    let asked = 0;
    answers = (family) => {
      if (family === 6) return [];
      asked += 1;
      return asked % 2 === 0 ? [GOOD] : [INNER];
    };
    const results = [];
    for (let index = 0; index < 100; index += 1) results.push(await send(rebindUrl()));
    expect(results.filter((result) => result.delivered)).toHaveLength(50);
    expect(results.filter((result) => result.error === 'destination_rejected')).toHaveLength(50);
    expect(inner.connections()).toBe(0);
  });

  it.each([
    ['nxdomain', 'dns', 10_000],
    ['servfail', 'dns', 10_000],
    ['silence', 'timeout', 500],
  ] as const)(
    'an attempt fails with its class when the answer of DNS is %s: %s',
    async (answer, error, timeoutMs) => {
      answers = () => answer;
      await attempts.close();
      attempts = new WebhookSender({ allowed: parseAllowedDestinations(GOOD), resolver, timeoutMs });
      // Only 127.0.0.1 is allowed, so https shows the class of the DNS failure itself.
      const result = await send(`https://rebind.test:${receiver.port}/`);
      expect(result).toMatchObject({ delivered: false, error });
    },
  );
});

describe('a host that is refused at every send', () => {
  const hosts = [...HOSTILE_LITERALS, ...HOSTILE_SPELLINGS].filter((host) => !leadsToGood(host));

  it('the refused hosts are sixty or more', () => {
    expect(hosts.length).toBeGreaterThanOrEqual(60);
  });

  it.each(hosts)('%s is refused at every send', async (host) => {
    for (const scheme of ['https', 'http']) {
      const result = await send(`${scheme}://${host}:${receiver.port}/`);
      expect(result).toEqual({
        delivered: false,
        gone: false,
        error: 'destination_rejected',
        latencyMs: expect.any(Number),
      });
    }
    expect(receiver.connections() + inner.connections()).toBe(0);
  });

  it.each(['not a url', 'ftp://127.0.0.1/', 'https://user@127.0.0.1/', ''])(
    '%j is refused at every send',
    async (url) => {
      expect(await send(url)).toMatchObject({ delivered: false, error: 'destination_rejected' });
    },
  );
});

/** The receiver's address is allowed in this file. Its spellings are tested where nothing is allowed. */
function leadsToGood(host: string): boolean {
  return new URL(`https://${host}/`).hostname === GOOD || host === 'loopback.test';
}
