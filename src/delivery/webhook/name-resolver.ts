// Resolves host names to addresses: hosts file, then DNS with the search domains of resolv.conf.
// It judges no address and caches none: each attempt asks again, and concurrent look-ups of one name are shared.
import { Resolver } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { isLocalhost } from './address-guard.ts';
import { errorCode } from './attempt-error.ts';

/** How names become addresses. Tests pass one that asks their own DNS server. */
export interface NameResolver {
  /** At least one IP literal. Rejects with `NameResolutionError` when the name has no address or DNS does not answer. */
  resolve(hostname: string): Promise<string[]>;
}

/** `notFound`: the name has no address. Otherwise DNS gave no answer. */
export class NameResolutionError extends Error {
  readonly notFound: boolean;

  constructor(notFound: boolean, cause?: unknown) {
    super(notFound ? 'The name has no address.' : 'DNS gave no answer.', { cause });
    this.name = 'NameResolutionError';
    this.notFound = notFound;
  }
}

export interface NameResolverOptions {
  /** `address` or `address:port`; default: those of the system. */
  servers?: readonly string[];
  /** The text of a hosts file; default: the system's, read once. */
  hostsText?: string;
  /** Default: those of resolv.conf, read once. */
  searchDomains?: readonly string[];
  /** For one query, which is tried twice. */
  queryTimeoutMs?: number;
  /** For one name with all its queries. After this time DNS has given no answer. */
  timeoutMs?: number;
}

/** How long to wait for the slower address family once the other has answered (RFC 8305 3, with room). */
const SECOND_FAMILY_MS = 500;
const NO_SUCH_NAME = new Set(['ENOTFOUND', 'ENODATA', 'EBADNAME', 'NOTFOUND', 'NODATA']);

/**
 * The resolver of a running service. It speaks DNS itself: getaddrinfo has four threads, and a few names with a dead
 * DNS server would occupy them for everybody.
 */
export function createNameResolver(options: NameResolverOptions = {}): NameResolver {
  const resolver = new Resolver({ timeout: options.queryTimeoutMs ?? 2_000, tries: 2 });
  if (options.servers) resolver.setServers(options.servers);
  const hosts = parseHosts(options.hostsText ?? readSystemFile('/etc/hosts'));
  const searchDomains = options.searchDomains ?? parseSearchDomains(readSystemFile('/etc/resolv.conf'));
  const inFlight = new Map<string, Promise<string[]>>();

  return {
    resolve(hostname) {
      const name = hostname.toLowerCase();
      const running = inFlight.get(name);
      if (running) return running;
      const answer = resolveName(name, { resolver, hosts, searchDomains });
      const started = withinTime(answer, options.timeoutMs ?? 5_000);
      inFlight.set(name, started);
      const forget = () => inFlight.delete(name);
      started.then(forget, forget);
      return started;
    },
  };
}

interface Sources {
  resolver: Resolver;
  hosts: ReadonlyMap<string, string[]>;
  searchDomains: readonly string[];
}

async function resolveName(name: string, sources: Sources): Promise<string[]> {
  const bare = name.replace(/\.$/, '');
  if (isLocalhost(bare)) return ['127.0.0.1', '::1'];
  const listed = sources.hosts.get(bare);
  if (listed) return listed;
  for (const candidate of candidateNames(name, sources.searchDomains)) {
    const addresses = await queryBothFamilies(sources.resolver, candidate);
    if (addresses.length > 0) return addresses;
  }
  throw new NameResolutionError(true);
}

/**
 * A name with a dot is asked as it is first, whatever `ndots` says: in a cluster that saves six queries for each public
 * name, and a search domain still finds `receiver.team.svc`.
 */
function candidateNames(name: string, searchDomains: readonly string[]): string[] {
  if (name.endsWith('.')) return [name.slice(0, -1)];
  const searched = searchDomains.map((domain) => `${name}.${domain}`);
  return name.includes('.') ? [name, ...searched] : [...searched, name];
}

/** Empty where the name does not exist or has no address. Rejects where neither family got an answer. */
async function queryBothFamilies(resolver: Resolver, name: string): Promise<string[]> {
  const families = [query(resolver.resolve4(name)), query(resolver.resolve6(name))];
  // IPv4 stays first, whichever answer comes first: the order of attempts is then the same each time.
  const answered: FamilyAnswer[] = [{ addresses: [] }, { addresses: [] }];
  const all = Promise.all(
    families.map(async (family, index) => {
      answered[index] = await family;
    }),
  );
  const either = Promise.any(families.map(requireAddress));
  await either.then(
    () => Promise.race([all, delay(SECOND_FAMILY_MS, undefined, { ref: false })]),
    () => all,
  );
  const addresses = answered.flatMap((family) => family.addresses);
  const failed = answered.find((family) => family.failure !== undefined);
  if (addresses.length === 0 && failed) throw new NameResolutionError(false, failed.failure);
  return addresses;
}

interface FamilyAnswer {
  addresses: string[];
  failure?: unknown;
}

async function query(answer: Promise<string[]>): Promise<FamilyAnswer> {
  try {
    return { addresses: await answer };
  } catch (error) {
    return NO_SUCH_NAME.has(errorCode(error)) ? { addresses: [] } : { addresses: [], failure: error };
  }
}

async function withinTime(answer: Promise<string[]>, timeoutMs: number): Promise<string[]> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new NameResolutionError(false)), timeoutMs);
  try {
    return await Promise.race([answer, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

async function requireAddress(family: Promise<FamilyAnswer>): Promise<void> {
  const { addresses } = await family;
  if (addresses.length === 0) throw new NameResolutionError(true);
}

function readSystemFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // Not every system has one, and DNS alone is enough.
  }
}

function parseHosts(text: string): Map<string, string[]> {
  const hosts = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [address, ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (!address || isIP(address) === 0) continue;
    for (const name of names) {
      const key = name.toLowerCase();
      hosts.set(key, [...(hosts.get(key) ?? []), address]);
    }
  }
  return hosts;
}

/** The last `search` or `domain` line counts (resolv.conf(5)). */
function parseSearchDomains(text: string): string[] {
  let domains: string[] = [];
  for (const line of text.split('\n')) {
    const [keyword, ...rest] = line.trim().split(/\s+/);
    if (keyword === 'search' || keyword === 'domain')
      domains = rest.map((domain) => domain.replace(/\.$/, ''));
  }
  return domains.filter((domain) => domain !== '');
}
