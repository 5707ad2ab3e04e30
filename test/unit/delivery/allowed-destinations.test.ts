import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judgeAddress } from '../../../src/delivery/webhook/address-guard.ts';
import {
  AllowedDestinationsError,
  parseAllowedDestinations,
} from '../../../src/delivery/webhook/allowed-destinations.ts';

const NONE = parseAllowedDestinations('');

function faultsOf(text: string): readonly string[] {
  try {
    parseAllowedDestinations(text);
    return [];
  } catch (error) {
    if (error instanceof AllowedDestinationsError) return error.faults;
    throw error;
  }
}

describe('the list of allowed private destinations', () => {
  it('the list of allowed destinations takes blocks, addresses and host suffixes, with blanks between them', () => {
    const allowed = parseAllowedDestinations(
      ' 10.0.0.0/8 , fd00::/8,::1,192.168.1.7,, .svc, *.Corp.Test., büro.test ',
    );
    for (const address of ['10.1.2.3', 'fd12::1', '::1', '192.168.1.7']) {
      expect(judgeAddress(address, 'any.test', allowed)).toBe('allowed');
    }
    expect(judgeAddress('192.168.1.8', 'any.test', allowed)).toBe('refused');
    for (const host of ['a.svc', 'A.B.SVC.', 'x.corp.test', 'xn--bro-hoa.test', 'a.xn--bro-hoa.test']) {
      expect(allowed.allowsHost(host), host).toBe(true);
    }
    for (const host of ['svc', 'corp.test', 'asvc', 'a.svc.evil', 'buro.test']) {
      expect(allowed.allowsHost(host), host).toBe(false);
    }
  });

  it.each([
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0/8',
    '10.1.2.3/8',
    'fd00::1/8',
    '::1/129',
    'fe80::1%eth0/64',
    '256.1.1.1',
    '10.0.0',
    '0x7f000001',
    'https://receiver.svc',
    'receiver.svc:8080',
    'receiver.svc/hook',
    'a..b',
    '-a.test',
    '*',
    '.',
    '*.*.test',
    'a b',
  ])('the error of a bad entry says what to write instead of %j', (entry) => {
    const faults = faultsOf(`10.0.0.0/8,${entry}`);
    expect(faults).toHaveLength(1);
    expect(faults[0]).toContain(`"${entry}"`);
    expect(faults[0]).toMatch(/write .+\.$/);
  });

  it('the error names every bad entry at once, and the network of an address with host bits', () => {
    expect(faultsOf('10.1.2.3/8,svc,a..b,::/999')).toHaveLength(3);
    expect(faultsOf('10.1.2.3/8')[0]).toContain('10.0.0.0/8');
  });
});

describe('an address', () => {
  /** First, last and the neighbours outside of each refused IPv4 block that has public neighbours. */
  it.each([
    ['9.255.255.255', '10.0.0.0', '10.255.255.255', '11.0.0.0'],
    ['100.63.255.255', '100.64.0.0', '100.127.255.255', '100.128.0.0'],
    ['126.255.255.255', '127.0.0.0', '127.255.255.255', '128.0.0.0'],
    ['169.253.255.255', '169.254.0.0', '169.254.255.255', '169.255.0.0'],
    ['172.15.255.255', '172.16.0.0', '172.31.255.255', '172.32.0.0'],
    ['191.255.255.255', '192.0.0.0', '192.0.0.255', '192.0.1.0'],
    ['192.0.1.255', '192.0.2.0', '192.0.2.255', '192.0.3.0'],
    ['192.88.98.255', '192.88.99.0', '192.88.99.255', '192.88.100.0'],
    ['192.167.255.255', '192.168.0.0', '192.168.255.255', '192.169.0.0'],
    ['198.17.255.255', '198.18.0.0', '198.19.255.255', '198.20.0.0'],
    ['198.51.99.255', '198.51.100.0', '198.51.100.255', '198.51.101.0'],
    ['203.0.112.255', '203.0.113.0', '203.0.113.255', '203.0.114.0'],
    ['2000::', '2001::', '2001:1ff:ffff::', '2001:200::'],
    ['2001:db7:ffff::', '2001:db8::', '2001:db8:ffff::', '2001:db9::'],
    ['2001:ffff::', '2002::', '2002:ffff::', '2003::'],
    ['3ffe:ffff::', '3fff::', '3fff:fff:ffff::', '3fff:1000::'],
  ])('%s is public, %s to %s is not, %s is', (before, first, last, after) => {
    const verdicts = [before, first, last, after].map((address) => judgeAddress(address, 'a.test', NONE));
    expect(verdicts).toEqual(['public', 'refused', 'refused', 'public']);
  });

  it('an IPv6 address outside of 2000::/3 is never public', () => {
    const hextet = fc.integer({ min: 0, max: 0xffff });
    fc.assert(
      fc.property(fc.array(hextet, { minLength: 8, maxLength: 8 }), (hextets) => {
        const address = hextets.map((value) => value.toString(16)).join(':');
        const isGlobal = (hextets[0] ?? 0) >> 13 === 1;
        if (!isGlobal) expect(judgeAddress(address, 'a.test', NONE)).toBe('refused');
      }),
    );
  });

  it.each(['', 'a.test', '10.1', '127.1', '0x7f.0.0.1', 'fe80::1%eth0', '1.2.3.4%0', '[::1]'])(
    '%j is refused, because it is not an address',
    (text) => {
      expect(judgeAddress(text, 'a.test', parseAllowedDestinations('0.0.0.0/0,::/0'))).toBe('refused');
    },
  );

  describe('of cloud metadata', () => {
    const METADATA = [
      '169.254.169.254',
      '169.254.170.2',
      '169.254.170.23',
      '169.254.0.23',
      '169.254.42.42',
      '100.100.100.200',
      '100.96.0.96',
      '168.63.129.16',
      '192.0.0.192',
      'fd00:ec2::254',
      'fd00:ec2::23',
      'fd20:ce::254',
      'fd00:c1::a9fe:a9fe',
      'fd00:42::42',
      'fd00:a9fe:a9fe::1',
      'fe80::a9fe:a9fe',
    ];
    /** What carries 169.254.169.254, or 100.100.100.200, in an address of IPv6. */
    const CARRIED = [
      '::ffff:169.254.169.254',
      '::ffff:100.100.100.200',
      '::169.254.169.254',
      '::ffff:0:169.254.169.254',
      '64:ff9b::a9fe:a9fe',
      '64:ff9b::100.100.100.200',
      '64:ff9b:1::a9fe:a9fe',
      '64:ff9b:1:ffff:a9:fea9:fe00:0',
      '64:ff9b:1:a9:fe:a9fe::',
      '64:ff9b:1:a9fe:a9:fe00::',
      '2002:a9fe:a9fe::1',
    ];
    const BROAD = [
      '0.0.0.0/0,::/0',
      '10.0.0.0/8,100.64.0.0/10,168.63.0.0/16,169.254.0.0/16,192.0.0.0/24,fd00::/8,fe80::/10',
      'metadata.svc',
      '64:ff9b::/96,64:ff9b:1::/48,::ffff:0:0/96,2002::/16,::/96',
      '169.254.169.254/31,100.100.100.200/29,fd00:ec2::254/127,fd20:ce::/112,::ffff:169.254.169.254/127',
    ];

    it.each([...METADATA, ...CARRIED])(
      '%s is opened by no host suffix and by no CIDR that has more',
      (address) => {
        for (const list of BROAD) {
          expect(judgeAddress(address, 'metadata.svc', parseAllowedDestinations(list)), list).toBe('refused');
        }
      },
    );

    it.each([...METADATA, ...CARRIED])('%s is opened by an entry that names it alone', (address) => {
      const bits = address.includes(':') ? 128 : 32;
      for (const entry of [address, `${address}/${bits}`]) {
        const allowed = parseAllowedDestinations(`${BROAD[0]},${entry}`);
        expect(judgeAddress(address, 'any.test', allowed)).toBe('allowed');
      }
    });

    it('an entry for one of them opens no other form of it', () => {
      const allowed = parseAllowedDestinations('169.254.169.254,0.0.0.0/0,::/0');
      for (const address of ['::ffff:169.254.169.254', '64:ff9b::a9fe:a9fe', '169.254.170.2']) {
        expect(judgeAddress(address, 'any.test', allowed)).toBe('refused');
      }
    });

    it('no block and no suffix opens what carries one of them, for any address that a broad list opens', () => {
      const octet = fc.integer({ min: 0, max: 255 });
      const everything = parseAllowedDestinations('0.0.0.0/0,::/0,svc');
      fc.assert(
        fc.property(octet, octet, (third, fourth) => {
          for (const form of ['169.254', '::ffff:169.254', '64:ff9b::169.254', '::169.254']) {
            const address = `${form}.${third}.${fourth}`;
            expect(judgeAddress(address, 'a.svc', everything), address).toBe('refused');
          }
        }),
      );
    });

    it('their neighbors are opened by a block as ever', () => {
      const allowed = parseAllowedDestinations('100.64.0.0/10,fd00::/8,64:ff9b::/96');
      for (const address of [
        '100.100.100.199',
        '100.100.100.201',
        'fd20:ce::253',
        'fd00:ec3::254',
        '64:ff9b::10.0.0.1',
      ]) {
        expect(judgeAddress(address, 'any.test', allowed)).toBe('allowed');
      }
    });
  });

  it('an address under a trusted name may be private, but not link-local or loopback', () => {
    const allowed = parseAllowedDestinations('svc,localhost');
    const judge = (address: string, host = 'a.svc') => judgeAddress(address, host, allowed);
    for (const address of ['10.0.0.1', '172.16.0.1', '192.168.0.1', '100.64.0.1', 'fd00::1']) {
      expect(judge(address)).toBe('allowed');
      expect(judge(address, 'a.test')).toBe('refused');
    }
    for (const address of [
      '169.254.169.254',
      '127.0.0.1',
      '::1',
      '0.0.0.0',
      '224.0.0.1',
      '::ffff:10.0.0.1',
    ]) {
      expect(judge(address)).toBe('refused');
    }
    expect(judge('8.8.8.8')).toBe('public');
    expect(judge('127.0.0.1', 'localhost')).toBe('allowed');
  });
});
