// Publish addresses to monitors: a bounded cache, filled in batches. An entry may be stale: the batch compares its
// configuration version with the live row's under the lock and reloads; nothing is decided on a stale entry. While the
// database is away an old entry is good enough, and who has none waits a moment for it.
import { type AddressRow, findAddresses } from '../store/beats/beats.ts';
import { loadWatchedMonitors, type WatchedMonitor } from '../store/monitors/watched-monitor.ts';
import { isDatabaseUnavailable } from '../store/postgres/database-error.ts';
import type { Queryable } from '../store/postgres/pool.ts';

export interface DirectoryEntry {
  address: string;
  monitor: WatchedMonitor;
  /** Set on a rotated address. */
  endsMs?: number;
  /** The plan and the project's name are no part of the configuration version: an entry is read again after a while. */
  loadedAt: number;
}

export interface DirectoryOptions {
  db: Queryable;
  minimumIntervalMs: number;
  /** Entries kept; the one loaded longest ago goes. */
  capacity?: number;
  /** How long an address waits for a database that is away. */
  patienceMs?: number;
  /** Each look-up that failed: it is tried again while somebody waits. */
  onError?: (error: unknown) => void;
  /** Monotonic ms, for ages alone. */
  now?: () => number;
}

/** Ten times the shortest interval: an entry that is older at each beat of its monitor would serve none. */
const ENTRY_AGE_MS = 600_000;
/** An address that is not there is asked for again after a second: guessing must not reach the database. */
const UNKNOWN_AGE_MS = 1_000;
const DEFAULT_CAPACITY = 100_000;
/** Half of a beat's patience: the other half is for writing it. */
const DEFAULT_PATIENCE_MS = 4_000;
const RETRY_MS = 50;
/** A look-up that takes so long, with its retries, is one that the database does not answer. */
const STUCK_MS = 1_000;

interface Waiter {
  expiresAt: number;
  resolve: (entry: DirectoryEntry | undefined) => void;
  reject: (error: unknown) => void;
}

export class MonitorDirectory {
  readonly #options: DirectoryOptions;
  readonly #capacity: number;
  readonly #now: () => number;
  readonly #entries = new Map<string, DirectoryEntry>();
  readonly #unknown = new Map<string, number>();
  #waiting = new Map<string, Waiter[]>();
  #isLoading = false;
  /** When the look-up that has not succeeded yet began. */
  #askingSince: number | undefined;

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.#capacity = options.capacity ?? DEFAULT_CAPACITY;
    this.#now = options.now ?? (() => performance.now());
  }

  /** For how long addresses have been asked for without an answer of the database, in ms; 0 while it answers. */
  get stuckMs(): number {
    const waitedMs = this.#askingSince === undefined ? 0 : this.#now() - this.#askingSince;
    return waitedMs > STUCK_MS ? waitedMs : 0;
  }

  /** The entry if it is here and young; else undefined, and `load` finds out. `address` in lower case. */
  peek(address: string): DirectoryEntry | undefined {
    const entry = this.#entries.get(address);
    if (!entry || this.#now() - entry.loadedAt > ENTRY_AGE_MS) return undefined;
    return entry;
  }

  /**
   * Finds the monitor of an address; undefined when there is none. One query serves all that ask meanwhile. Rejects
   * when the database does not answer in time and the address has no older entry.
   */
  load(address: string): Promise<DirectoryEntry | undefined> {
    const unknownSince = this.#unknown.get(address);
    if (unknownSince !== undefined && this.#now() - unknownSince < UNKNOWN_AGE_MS) {
      return Promise.resolve(undefined);
    }
    return new Promise((resolve, reject) => {
      const expiresAt = this.#now() + (this.#options.patienceMs ?? DEFAULT_PATIENCE_MS);
      this.#enqueue(address, { expiresAt, resolve, reject });
      if (!this.#isLoading) void this.#loadWaiting();
    });
  }

  /** Reads entries again inside a transaction; an address that is gone has no entry in the answer. */
  async reload(tx: Queryable, addresses: readonly string[]): Promise<Map<string, DirectoryEntry>> {
    const found = await this.#read(tx, addresses);
    for (const address of addresses) {
      const entry = found.get(address);
      if (entry) this.#remember(entry);
      else this.#entries.delete(address);
    }
    return found;
  }

  #enqueue(address: string, waiter: Waiter): void {
    const waiters = this.#waiting.get(address);
    if (waiters) waiters.push(waiter);
    else this.#waiting.set(address, [waiter]);
  }

  async #loadWaiting(): Promise<void> {
    this.#isLoading = true;
    while (this.#waiting.size > 0) {
      const batch = this.#waiting;
      this.#waiting = new Map();
      this.#askingSince ??= this.#now();
      try {
        const found = await this.#read(this.#options.db, [...batch.keys()]);
        for (const [address, waiters] of batch) {
          const entry = found.get(address);
          if (entry) this.#remember(entry);
          else this.#forget(address);
          for (const waiter of waiters) waiter.resolve(entry);
        }
        this.#askingSince = undefined;
      } catch (error) {
        this.#options.onError?.(error);
        for (const [address, waiters] of batch) this.#doWithout(address, waiters, error);
        if (this.#waiting.size > 0) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
    this.#askingSince = undefined;
    this.#isLoading = false;
  }

  /** The database did not answer: an old entry serves, those whose time is over are told, the others ask again. */
  #doWithout(address: string, waiters: readonly Waiter[], error: unknown): void {
    const entry = this.#entries.get(address);
    for (const waiter of waiters) {
      if (entry) waiter.resolve(entry);
      else if (waiter.expiresAt <= this.#now() || !isDatabaseUnavailable(error)) waiter.reject(error);
      else this.#enqueue(address, waiter);
    }
  }

  async #read(db: Queryable, addresses: readonly string[]): Promise<Map<string, DirectoryEntry>> {
    const rows: Map<string, AddressRow> = await findAddresses(db, addresses);
    const monitors = await loadWatchedMonitors(db, [...rows.values()], this.#options.minimumIntervalMs);
    const loadedAt = this.#now();
    const entries = new Map<string, DirectoryEntry>();
    for (const [address, row] of rows) {
      const monitor = monitors.get(row.monitorKey);
      if (monitor) entries.set(address, { address, monitor, endsMs: row.endsMs, loadedAt });
    }
    return entries;
  }

  #remember(entry: DirectoryEntry): void {
    this.#entries.delete(entry.address);
    this.#entries.set(entry.address, entry);
    this.#unknown.delete(entry.address);
    trim(this.#entries, this.#capacity);
  }

  #forget(address: string): void {
    this.#entries.delete(address);
    this.#unknown.delete(address);
    this.#unknown.set(address, this.#now());
    trim(this.#unknown, this.#capacity);
  }
}

/** A Map keeps its order of insertion: the first key is the oldest. */
function trim(map: Map<string, unknown>, capacity: number): void {
  while (map.size > capacity) {
    const [oldest] = map.keys();
    if (oldest === undefined) return;
    map.delete(oldest);
  }
}
