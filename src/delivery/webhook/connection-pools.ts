// Connections to receivers, each pinned to the addresses that were checked for the attempt that uses it.
// It checks no address itself, and it knows nothing of deliveries.
import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector, Pool } from 'undici';
import { RecentlyUsed } from '../recently-used.ts';
import { canonicalAddress } from './address-guard.ts';
import { DestinationRejectedError } from './attempt-error.ts';
import type { Destination } from './destination.ts';

export interface ConnectionPoolsOptions {
  /** Pools kept at once. Idle ones are closed first, those in use never. */
  maxPools: number;
  connectTimeoutMs: number;
  /** PEM certificates to trust instead of the runtime's; for receivers in tests. */
  ca?: string;
}

/** A pool for one attempt. `release` once, when the attempt is over. */
export interface PoolLease {
  pool: Pool;
  /** The next request may go out on a connection that was used before. */
  mayReuse: boolean;
  release(): void;
}

interface Entry {
  pool: Pool;
  leases: number;
  /** Counted by events: the pool's own figures ask each connection. */
  connections: number;
}

/** Shorter than the idle time of common servers (5 s and up), so that they rarely close under a request. */
const KEEP_ALIVE_MS = 4_000;
const KEEP_ALIVE_MAX_MS = 60_000;

/** When the next of several addresses is tried. Node's 250 ms would give up on receivers that are merely far away. */
const NEXT_ADDRESS_MS = 1_000;

/** One pool per origin and set of checked addresses, so that a connection is reused only for the same set. */
export class ConnectionPools {
  readonly #options: ConnectionPoolsOptions;
  readonly #entries = new RecentlyUsed<Entry>();

  constructor(options: ConnectionPoolsOptions) {
    this.#options = options;
  }

  lease(destination: Destination, addresses: readonly string[]): PoolLease {
    const key = `${destination.url.origin} ${addresses.toSorted().join(' ')}`;
    const entry = this.#entries.use(key, () => this.#openEntry(destination, addresses));
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
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    await Promise.all(entries.map(({ pool }) => pool.destroy()));
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
      // No proxy, which could resolve the name again, and no HTTP/2, which would need a second set of limits.
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
    const dropped = this.#entries.dropSurplus(this.#options.maxPools, (entry) => entry.leases > 0);
    for (const { pool } of dropped) void pool.destroy();
  }
}

/**
 * Connects only to checked addresses. Node calls `lookup` with `all: true` for a name, and never for an IP literal: in
 * the end the address that the socket is connected to is compared with the checked ones, whichever way it came about.
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
