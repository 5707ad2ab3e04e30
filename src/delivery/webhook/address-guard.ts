// Judges addresses: public, private but allowed by the installer, or refused.
// It resolves no names and opens no connections.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { AllowedDestinations } from './allowed-destinations.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Block = [Address, number];

/** `allowed`: on the installer's list, and therefore also good for plain http. */
export type AddressVerdict = 'public' | 'allowed' | 'refused';

const parseBlocks = (blocks: string[]): Block[] => blocks.map((block) => ipaddr.parseCIDR(block));

/** What a host suffix may open: addresses of private networks. */
const PRIVATE_USE = parseBlocks([
  '10.0.0.0/8',
  '100.64.0.0/10',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '198.18.0.0/15',
  'fc00::/7',
]);

const LOOPBACK = parseBlocks(['127.0.0.0/8', '::1/128']);

/**
 * Where a cloud, or its agent on the host, hands credentials to whoever asks. Only an entry that names the single address
 * opens one: who allows 100.64.0.0/10 or a host suffix does not mean these. Link-local is here as a whole, because clouds
 * use ever more of it, and no receiver lives there.
 */
const METADATA = parseBlocks([
  '100.96.0.96/32', // Volcengine
  '100.100.100.200/32', // Alibaba Cloud
  '168.63.129.16/32', // Azure's host agent
  '169.254.0.0/16', // link-local: nearly every cloud's 169.254.169.254, the 169.254.170.2 and .23 of AWS's containers
  '192.0.0.192/32', // Oracle Cloud, older machines
  'fd00:42::42/128', // Scaleway
  'fd00:a9fe:a9fe::/48', // Akamai (Linode)
  'fd00:c1::a9fe:a9fe/128', // Oracle Cloud
  'fd00:ec2::/32', // AWS: metadata, credentials of pods, DNS, time
  'fd20:ce::254/128', // Google Cloud
  'fe80::/10', // link-local, OpenStack's fe80::a9fe:a9fe
]);

/** IPv6 addresses that carry an IPv4 address, and in which of their bytes: RFC 6052 2.2 has those of NAT64. */
const CARRIERS: readonly { prefix: Block; bytes: readonly number[] }[] = [
  { prefix: ipaddr.parseCIDR('::/96'), bytes: [12, 13, 14, 15] }, // compatible
  { prefix: ipaddr.parseCIDR('::ffff:0:0/96'), bytes: [12, 13, 14, 15] }, // mapped
  { prefix: ipaddr.parseCIDR('::ffff:0:0:0/96'), bytes: [12, 13, 14, 15] }, // SIIT
  { prefix: ipaddr.parseCIDR('64:ff9b::/96'), bytes: [12, 13, 14, 15] }, // NAT64
  { prefix: ipaddr.parseCIDR('64:ff9b:1::/48'), bytes: [12, 13, 14, 15] }, // NAT64 of one's own network
  { prefix: ipaddr.parseCIDR('64:ff9b:1::/48'), bytes: [9, 10, 11, 12] },
  { prefix: ipaddr.parseCIDR('64:ff9b:1::/48'), bytes: [7, 9, 10, 11] },
  { prefix: ipaddr.parseCIDR('64:ff9b:1::/48'), bytes: [6, 7, 9, 10] },
  { prefix: ipaddr.parseCIDR('2002::/16'), bytes: [2, 3, 4, 5] }, // 6to4
];

/** The IANA special-purpose registry for IPv4, multicast, the reserved class, and one cloud's host agent. */
const REFUSED_IPV4 = parseBlocks([
  '0.0.0.0/8', // this network
  '10.0.0.0/8', // private use
  '100.64.0.0/10', // shared address space of carriers
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // Azure's host agent: looks public, never leaves the host
  '169.254.0.0/16', // link-local, cloud metadata
  '172.16.0.0/12', // private use
  '192.0.0.0/24', // IETF protocol assignments
  '192.0.2.0/24', // documentation
  '192.31.196.0/24', // AS112
  '192.52.193.0/24', // AMT
  '192.88.99.0/24', // 6to4 relays
  '192.168.0.0/16', // private use
  '192.175.48.0/24', // AS112
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, broadcast
]);

/**
 * IPv6 is judged the other way round: only global unicast is public. That refuses mapped (`::ffff:0:0/96`),
 * compatible (`::/96`), NAT64, SIIT, unique-local, link-local, site-local and multicast without naming them.
 */
const GLOBAL_UNICAST_IPV6 = parseBlocks(['2000::/3']);
const REFUSED_IPV6 = parseBlocks([
  '2001::/23', // IETF protocol assignments: Teredo, ORCHID, benchmarks
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4: carries any IPv4 address
  '2620:4f:8000::/48', // AS112
  '3fff::/20', // documentation
]);

/** Where `address` (an IP literal) leads, reached by `hostname` (docs/contract/callbacks.md). */
export function judgeAddress(
  address: string,
  hostname: string,
  allowed: AllowedDestinations,
): AddressVerdict {
  // A zone names one of our own interfaces. Lenient spellings such as `10.1` are not addresses here.
  if (isIP(address) === 0 || address.includes('%')) return 'refused';
  const parsed = ipaddr.parse(address);
  if (isMetadata(parsed)) return isNamedAlone(parsed, allowed) ? 'allowed' : 'refused';
  if (inAny(parsed, allowed.blocks)) return 'allowed';
  if (isOpenedByName(parsed, hostname, allowed)) return 'allowed';
  return isPublic(parsed) ? 'public' : 'refused';
}

/** The canonical spelling of an address, for comparisons. Undefined for a text that is not an address. */
export function canonicalAddress(address: string | undefined): string | undefined {
  if (address === undefined || isIP(address) === 0) return undefined;
  return ipaddr.parse(address).toString();
}

function isPublic(address: Address): boolean {
  if (address.kind() === 'ipv4') return !inAny(address, REFUSED_IPV4);
  return inAny(address, GLOBAL_UNICAST_IPV6) && !inAny(address, REFUSED_IPV6);
}

/** Also in the forms of IPv6 that translators and tunnels lead to the IPv4 address. */
function isMetadata(address: Address): boolean {
  return inAny(address, METADATA) || carriedIpv4(address).some((carried) => inAny(carried, METADATA));
}

function carriedIpv4(address: Address): ipaddr.IPv4[] {
  const octets = address.toByteArray();
  return CARRIERS.filter(({ prefix }) => inAny(address, [prefix])).map(
    ({ bytes }) => new ipaddr.IPv4(bytes.map((index) => octets[index] ?? 0)),
  );
}

function isNamedAlone(address: Address, { blocks }: AllowedDestinations): boolean {
  const bits = address.kind() === 'ipv4' ? 32 : 128;
  return inAny(
    address,
    blocks.filter(([, prefix]) => prefix === bits),
  );
}

/** A trusted name opens private networks. It opens our own loopback only if it is a name of it: `localhost`. */
function isOpenedByName(address: Address, hostname: string, allowed: AllowedDestinations): boolean {
  if (!allowed.allowsHost(hostname)) return false;
  if (inAny(address, PRIVATE_USE)) return true;
  return isLocalhost(hostname) && inAny(address, LOOPBACK);
}

/** `localhost` and the names below it always mean loopback (RFC 6761 6.3). */
export function isLocalhost(hostname: string): boolean {
  return /(^|\.)localhost\.?$/i.test(hostname);
}

function inAny(address: Address, blocks: readonly Block[]): boolean {
  return blocks.some(([base, bits]) => base.kind() === address.kind() && address.match(base, bits));
}
