// The installer's list of private destinations: parsed once at start, with every fault named at once.
// An entry is a CIDR, an address, or a host suffix. address-guard.ts decides what an entry opens.
import { domainToASCII } from 'node:url';
import ipaddr from 'ipaddr.js';

export interface AllowedDestinations {
  readonly blocks: readonly [ipaddr.IPv4 | ipaddr.IPv6, number][];
  /** Whether a host name (no brackets; a trailing dot does not matter) is on the list by its suffix. */
  allowsHost(hostname: string): boolean;
}

/** Thrown at start. `faults` has one sentence for each bad entry. */
export class AllowedDestinationsError extends Error {
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`The list of allowed private destinations is not valid: ${faults.join(' ')}`);
    this.name = 'AllowedDestinationsError';
    this.faults = faults;
  }
}

const HOST_PATTERN = /^(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/;
const NUMERIC_LAST_LABEL = /(^|\.)(\d+|0x[0-9a-f]*)$/;

/**
 * Parses a comma list such as `10.0.0.0/8, fd00::/8, svc.cluster.local`.
 * `svc.cluster.local` means the name and all below it; `.svc.cluster.local` and `*.svc.cluster.local` only
 * those below. Throws `AllowedDestinationsError`. An empty text allows nothing.
 */
export function parseAllowedDestinations(text: string): AllowedDestinations {
  const blocks: [ipaddr.IPv4 | ipaddr.IPv6, number][] = [];
  const suffixes: string[] = [];
  const faults: string[] = [];
  for (const entry of text.split(',').map((part) => part.trim())) {
    if (entry === '') continue;
    const parsed = parseEntry(entry);
    if (typeof parsed === 'string') faults.push(`"${entry.slice(0, 100)}": ${parsed}`);
    else if ('suffix' in parsed) suffixes.push(parsed.suffix);
    else blocks.push(parsed.block);
  }
  if (faults.length > 0) throw new AllowedDestinationsError(faults);
  return { blocks, allowsHost: (hostname) => matchesAnySuffix(hostname, suffixes) };
}

type Entry = { block: [ipaddr.IPv4 | ipaddr.IPv6, number] } | { suffix: string };

/** The parsed entry, or a sentence that says what is wrong with it. */
function parseEntry(entry: string): Entry | string {
  if (entry.includes('://')) return 'write a CIDR or a host suffix, not a URL.';
  if (entry.includes('/')) return parseBlock(entry);
  if (ipaddr.IPv4.isValidFourPartDecimal(entry)) return parseBlock(`${entry}/32`);
  if (ipaddr.IPv6.isValid(entry)) return parseBlock(`${entry}/128`);
  return parseSuffix(entry);
}

function parseBlock(entry: string): Entry | string {
  const isBlock = ipaddr.IPv4.isValidCIDRFourPartDecimal(entry) || ipaddr.IPv6.isValidCIDR(entry);
  if (!isBlock || entry.includes('%')) return 'write an address block such as 10.0.0.0/8 or fd00::/8.';
  const [address, bits] = ipaddr.parseCIDR(entry);
  const network =
    address.kind() === 'ipv4'
      ? ipaddr.IPv4.networkAddressFromCIDR(entry)
      : ipaddr.IPv6.networkAddressFromCIDR(entry);
  // Someone who writes 10.1.2.3/8 may mean one host, and would open sixteen million.
  if (network.toString() !== address.toString()) {
    return `the address has bits outside of its prefix; write ${network.toString()}/${bits} or a longer prefix.`;
  }
  return { block: [address, bits] };
}

function parseSuffix(entry: string): Entry | string {
  const onlyBelow = entry.startsWith('.') || entry.startsWith('*.');
  const name = domainToASCII(entry.replace(/^\*?\./, '').replace(/\.$/, ''));
  if (name.length > 253 || !HOST_PATTERN.test(name) || NUMERIC_LAST_LABEL.test(name)) {
    return 'write a CIDR such as 10.0.0.0/8 or a host suffix such as svc.cluster.local, without a port.';
  }
  return { suffix: onlyBelow ? `.${name}` : name };
}

function matchesAnySuffix(hostname: string, suffixes: readonly string[]): boolean {
  const name = hostname.toLowerCase().replace(/\.$/, '');
  return suffixes.some((suffix) =>
    suffix.startsWith('.') ? name.endsWith(suffix) : name === suffix || name.endsWith(`.${suffix}`),
  );
}
