// Where a webhook may lead: the check when an endpoint is created, with our own DNS server.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type AllowedDestinations,
  parseAllowedDestinations,
} from '../../src/delivery/webhook/allowed-destinations.ts';
import { checkDestination } from '../../src/delivery/webhook/destination.ts';
import { createNameResolver } from '../../src/delivery/webhook/name-resolver.ts';
import { ProblemError } from '../../src/domain/problem.ts';
import { type DnsAnswer, type DnsServer, startDnsServer } from './dns-server.ts';
import { HOSTILE_LITERALS, HOSTILE_NAMES, HOSTILE_SPELLINGS } from './hostile-hosts.ts';

const NAMES: Record<string, readonly string[] | 'servfail' | 'silence'> = {
  ...HOSTILE_NAMES,
  'public.test': ['93.184.216.34', '2606:2800:220:1:248:1893:25c8:1946'],
  'receiver.team.svc': ['10.96.0.7'],
  'metadata.team.svc': ['169.254.169.254'],
  'metadata-v6.team.svc': ['fd00:ec2::254'],
  'metadata-shared.team.svc': ['100.100.100.200'],
  'own.team.svc': ['127.0.0.1'],
  'outside.team.svc': ['93.184.216.34'],
  'short.corp.test': ['10.1.2.3'],
  'broken.test': 'servfail',
  'silent.test': 'silence',
};

let dns: DnsServer;

beforeAll(async () => {
  dns = await startDnsServer((name, family): DnsAnswer => {
    const addresses = NAMES[name];
    if (addresses === undefined) return 'nxdomain';
    if (typeof addresses === 'string') return addresses;
    return addresses.filter((address) => address.includes(':') === (family === 6));
  });
});
afterAll(() => dns.close());

async function check(url: string, allowed = '', path?: string): Promise<ProblemError | undefined> {
  const destinations: AllowedDestinations = parseAllowedDestinations(allowed);
  const resolver = createNameResolver({
    servers: [dns.address],
    hostsText: '192.168.7.7 listed.test # a comment',
    searchDomains: ['corp.test'],
    // Only silence has a short timeout: on a slow machine an answer may take long.
    ...(url.includes('silent.test') ? { queryTimeoutMs: 100, timeoutMs: 600 } : { timeoutMs: 60_000 }),
  });
  try {
    await checkDestination(url, { allowed: destinations, resolver }, path);
    return undefined;
  } catch (error) {
    if (error instanceof ProblemError) return error;
    throw error;
  }
}

describe('a destination that is refused for where it leads', () => {
  it.each([...HOSTILE_LITERALS, ...HOSTILE_SPELLINGS])(
    'https://%s/ is refused as a destination',
    async (host) => {
      const problem = await check(`https://${host}/hook`);
      expect(problem?.code).toBe('callback_destination_rejected');
      expect(problem?.options.fieldErrors?.[0]).toMatchObject({ code: 'address_not_allowed', path: 'url' });
    },
  );

  it('the refusal of a destination names no address', async () => {
    const problem = await check('https://private.test/');
    expect(JSON.stringify(problem?.options)).not.toContain('10.0.0.1');
  });

  it.each([
    ['nowhere.test', 'host_not_found'],
    ['a..b.test', 'host_not_found'],
    [`${'a'.repeat(64)}.test`, 'host_not_found'],
    ['broken.test', 'host_not_resolved'],
    ['silent.test', 'host_not_resolved'],
  ])('https://%s is refused because it does not resolve: %s', async (host, code) => {
    const problem = await check(`https://${host}/hook`);
    expect(problem?.code).toBe('callback_destination_rejected');
    expect(problem?.options.fieldErrors?.[0]?.code).toBe(code);
  });

  it('names of the hosts file and of the search domains are resolved and judged', async () => {
    expect((await check('https://listed.test/'))?.code).toBe('callback_destination_rejected');
    expect((await check('https://short/'))?.code).toBe('callback_destination_rejected');
    expect(await check('https://listed.test/', '192.168.7.7')).toBeUndefined();
    expect(await check('https://short/', '10.1.2.0/24')).toBeUndefined();
  });
});

describe('a destination that is accepted', () => {
  it.each([
    'https://public.test/hook?a=b',
    'https://public.test./hook',
    'HTTPS://PUBLIC.test:8443',
    'https://8.8.8.8/',
    'https://134744072/',
    'https://[2606:4700::1111]/',
    'https://[2a00:1450:4001::1]:444/x',
    'https://192.0.1.1/',
    'https://172.32.0.1/',
    'https://[2001:200::1]/',
    `https://public.test/${'a'.repeat(512 - 'https://public.test/'.length)}`,
  ])('%s is accepted as a destination', async (url) => {
    expect(await check(url)).toBeUndefined();
  });
});

describe('a destination with a fault of form', () => {
  it.each([
    ['', 'required'],
    ['not a url', 'invalid_url'],
    ['public.test/hook', 'invalid_url'],
    ['/hook', 'invalid_url'],
    ['https://', 'invalid_url'],
    ['https://[::1', 'invalid_url'],
    ['https://[fe80::1%25eth0]/', 'invalid_url'],
    ['https://256.0.0.1/', 'invalid_url'],
    ['https://1.2.3.4.5/', 'invalid_url'],
    ['https://public.test:99999/', 'invalid_url'],
    ['https://public.test:0/', 'invalid_url'],
    ['https://public.test/a b', 'invalid_url'],
    [' https://public.test/', 'invalid_url'],
    ['https://public.test/\n', 'invalid_url'],
    ['https://pub\tlic.test/', 'invalid_url'],
    ['https://public.test/\0', 'invalid_url'],
    ['ftp://public.test/', 'invalid_scheme'],
    ['file:///etc/passwd', 'invalid_scheme'],
    ['javascript:alert(1)', 'invalid_scheme'],
    ['http://public.test/', 'invalid_scheme'],
    ['http://10.0.0.1/', 'invalid_scheme'],
    ['http://nowhere.test/', 'invalid_scheme'],
    ['https://user@public.test/', 'user_info_not_allowed'],
    ['https://user:secret@public.test/', 'user_info_not_allowed'],
    ['https://@public.test/', 'user_info_not_allowed'],
    ['https:\\\\@10.0.0.1/', 'user_info_not_allowed'],
    ['https://public.test@10.0.0.1/', 'user_info_not_allowed'],
    ['https://public.test/#part', 'fragment_not_allowed'],
    ['https://public.test/#', 'fragment_not_allowed'],
    [`https://public.test/${'a'.repeat(513 - 'https://public.test/'.length)}`, 'too_long'],
  ])('%j is refused for its form: %s', async (url, code) => {
    const problem = await check(url);
    expect(problem?.code).toBe('validation_failed');
    expect(problem?.options.fieldErrors).toMatchObject([{ code, path: 'url' }]);
  });

  it('a fault of form is reported before where the URL leads, under the name of the caller’s field', async () => {
    const problem = await check('https://user@10.0.0.1/', '', 'callback.url');
    expect(problem?.code).toBe('validation_failed');
    expect(problem?.options.fieldErrors?.[0]?.path).toBe('callback.url');
  });
});

describe('any other text', () => {
  it('any other text is refused with a problem of form or destination, never with another error', async () => {
    const host = fc.oneof(fc.string({ unit: 'binary' }), fc.domain(), fc.ipV6(), fc.ipV4Extended());
    const url = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc
        .tuple(fc.constantFrom('https://', 'http://', 'https:\\\\'), host, fc.webPath())
        .map((parts) => parts.join('')),
    );
    await fc.assert(
      fc.asyncProperty(url, async (text) => {
        const problem = await check(text);
        if (problem) expect(['validation_failed', 'callback_destination_rejected']).toContain(problem.code);
      }),
      { numRuns: 500 },
    );
  });
});

describe('private destinations that the installer allows', () => {
  const LOOPBACK = '127.0.0.0/8,::1/128';

  it.each([
    ['http://127.0.0.1:8080/hook', LOOPBACK],
    ['https://127.0.0.1/', LOOPBACK],
    ['http://[::1]:8080/', LOOPBACK],
    ['http://localhost:8080/', LOOPBACK],
    ['http://2130706433/', LOOPBACK],
    ['http://loopback.test/', LOOPBACK],
    ['http://localhost:8080/', 'localhost'],
    ['http://receiver.team.svc/', 'svc'],
    ['https://receiver.team.svc./', 'team.svc'],
    ['https://receiver.team.svc/', '.svc'],
    ['http://receiver.team.svc/', '10.96.0.0/12'],
    ['https://mixed.test/', '10.0.0.0/8'],
    ['https://outside.team.svc/', 'svc'],
    ['http://metadata-shared.team.svc/', '100.100.100.200/32'],
    ['https://metadata-v6.team.svc/', 'fd00:ec2::254'],
  ])('%s is accepted when %s is allowed', async (url, allowed) => {
    expect(await check(url, allowed)).toBeUndefined();
  });

  it.each([
    ['https://10.0.0.1/', LOOPBACK, 'callback_destination_rejected'],
    ['https://[::ffff:127.0.0.1]/', LOOPBACK, 'callback_destination_rejected'],
    ['http://[::ffff:127.0.0.1]/', LOOPBACK, 'validation_failed'],
    ['http://10.0.0.1/', LOOPBACK, 'validation_failed'],
    ['http://public.test/', LOOPBACK, 'validation_failed'],
    ['http://nowhere.test/', LOOPBACK, 'validation_failed'],
    ['http://silent.test/', LOOPBACK, 'validation_failed'],
    ['http://mixed.test/', '10.0.0.0/8', 'validation_failed'],
    ['http://outside.team.svc/', 'svc', 'validation_failed'],
    ['https://metadata.team.svc/', 'svc', 'callback_destination_rejected'],
    ['https://metadata-v6.team.svc/', 'svc', 'callback_destination_rejected'],
    ['https://metadata-v6.team.svc/', 'svc,fd00::/8', 'callback_destination_rejected'],
    ['https://metadata-shared.team.svc/', 'svc,100.64.0.0/10', 'callback_destination_rejected'],
    ['http://100.100.100.200/', '100.64.0.0/10', 'validation_failed'],
    ['https://own.team.svc/', 'svc', 'callback_destination_rejected'],
    ['http://gone.team.svc/', 'svc', 'callback_destination_rejected'],
    ['https://evilsvc/', 'svc', 'callback_destination_rejected'],
    ['https://private.test/', '10.0.0.2', 'callback_destination_rejected'],
  ])('%s is refused when %s is allowed: %s', async (url, allowed, code) => {
    expect((await check(url, allowed))?.code).toBe(code);
  });
});
