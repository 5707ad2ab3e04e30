// Connections to receivers, each pinned to addresses that were checked for the very attempt that uses it.
// It checks no address itself, and it knows nothing of deliveries.
import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector, Pool } from 'undici';
import { canonicalAddress } from './address-guard.ts';
import { DestinationRejectedError } from './attempt-error.ts';
import type { Destination } from './destination.ts';

export interface ConnectionPoolsOptions {
  /** Pools kept at once; idle ones go first, those in use are never closed. */
  maxPools: number;
  connectTimeoutMs: number;
  /** PEM certificates to trust besides those of the runtime's default; for receivers in tests. */
  ca?: string;
}

/** A pool for one attempt. `release` once, when the attempt is over. */
export interface PoolLease {
  pool: Pool;
  /** Whether the next request may go out on a connection that was used before. */
  mayReuse: boolean;
  release(): void;
}

interface Entry {
  pool: Pool;
  leases: number;
  /** Counted by events: the pool's own figures ask each of its connections. */
  connections: number;
}

/** Shorter than the idle time of common servers (5 s and up), so that they rarely close under a request. */
const KEEP_ALIVE_MS = 4_000;
const KEEP_ALIVE_MAX_MS = 60_000;

/** When the next of several addresses is tried. Node's 250 ms would give up on receivers that are only far away. */
const NEXT_ADDRESS_MS = 1_000;

/** One pool per origin and set of checked addresses, so that a connection is reused only for the same set. */
export class ConnectionPools {
  readonly #options: ConnectionPoolsOptions;
  /** In order of last use, oldest first. */
  readonly #entries = new Map<string, Entry>();

  constructor(options: ConnectionPoolsOptions) {
    this.#options = options;
  }

  lease(destination: Destination, addresses: readonly string[]): PoolLease {
    const key = `${destination.url.origin} ${addresses.toSorted().join(' ')}`;
    const entry = this.#entries.get(key) ?? this.#openEntry(destination, addresses);
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    entry.leases += 1;
    this.#closeSurplus();
    return {
      pool: entry.pool,
      mayReuse: entry.connections > 0,
      release: () => {
        entry.leases -= 1;
        this.#closeSurplus();
      },
    };
  }

  /** A pool for one request on a connection of its own; the caller destroys it. */
  openOnce(destination: Destination, addresses: readonly string[]): Pool {
    return this.#openPool(destination, addresses);
  }

  /** Drops every connection; requests under way fail. */
  async close(): Promise<void> {
    const pools = [...this.#entries.values()].map((entry) => entry.pool);
    this.#entries.clear();
    await Promise.all(pools.map((pool) => pool.destroy()));
  }

  #openEntry(destination: Destination, addresses: readonly string[]): Entry {
    const pool = this.#openPool(destination, addresses);
    const entry: Entry = { pool, leases: 0, connections: 0 };
    pool.on('connect', () => {
      entry.connections += 1;
    });
    pool.on('disconnect', () => {
      entry.connections -= 1;
    });
    return entry;
  }

  #openPool(destination: Destination, addresses: readonly string[]): Pool {
    return new Pool(destination.url.origin, {
      connect: pinnedConnector(destination, addresses, this.#options),
      // A proxy could look the name up anew, and HTTP/2 would need a second set of limits: neither is spoken.
      allowH2: false,
      pipelining: 1,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MAX_MS,
      // The attempt has one deadline for everything.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  #closeSurplus(): void {
    let surplus = this.#entries.size - this.#options.maxPools;
    for (const [key, entry] of this.#entries) {
      if (surplus <= 0) return;
      if (entry.leases > 0) continue;
      this.#entries.delete(key);
      surplus -= 1;
      void entry.pool.destroy();
    }
  }
}

/**
 * Connects to checked addresses alone. `lookup` is never called for an IP literal, and with `all: true` for a
 * name; the socket's own word for where it leads is compared at the end, whichever way it came about.
 */
function pinnedConnector(
  destination: Destination,
  addresses: readonly string[],
  options: ConnectionPoolsOptions,
): buildConnector.connector {
  const { hostname, url } = destination;
  const isLiteral = isIP(hostname) !== 0;
  const checked = new Set(addresses.map((address) => canonicalAddress(address)));
  const connect = buildConnector({
    allowH2: false,
    timeout: options.connectTimeoutMs,
    lookup: answerOnly(addresses),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_MS,
    ...(options.ca === undefined ? {} : { ca: options.ca }),
  });
  // SNI is the name in the URL, without the dot that ends a full name (RFC 6066 3), and never an address.
  const servername = url.protocol === 'https:' && !isLiteral ? hostname.replace(/\.$/, '') : undefined;
  return (target, callback) => {
    connect({ ...target, hostname, servername }, (...result) => {
      const [error, socket] = result;
      if (error !== null) return callback(error, null);
      if (!checked.has(canonicalAddress(socket.remoteAddress))) {
        socket.destroy();
        return callback(new DestinationRejectedError(), null);
      }
      callback(null, socket);
    });
  };
}

function answerOnly(addresses: readonly string[]): LookupFunction {
  const answers: LookupAddress[] = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_hostname, options, callback) => {
    if (options.all) return callback(null, answers);
    const [first] = answers;
    if (!first) return callback(new DestinationRejectedError(), '', 4);
    callback(null, first.address, first.family);
  };
}
