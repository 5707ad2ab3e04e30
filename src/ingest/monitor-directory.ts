// Publish addresses to monitors: a bounded cache, filled in batches. An entry may be stale: the batch compares its
// configuration version with the live row's under the lock and reloads; nothing is decided on a stale entry.
import { type AddressRow, findAddresses } from '../store/beats.ts';
import { loadTimings, type MonitorTiming } from '../store/monitor-timing.ts';
import type { Queryable } from '../store/pool.ts';

export interface DirectoryEntry {
  address: string;
  monitor: MonitorTiming;
  /** Set on a rotated address. */
  endsMs?: number;
  /** The plan is no part of the configuration version: an entry is read again after a while. */
  loadedAt: number;
}

export interface DirectoryOptions {
  db: Queryable;
  minimumIntervalMs: number;
  /** Entries kept; the one loaded longest ago goes. */
  capacity?: number;
  /** Monotonic ms, for ages alone. */
  now?: () => number;
}

const ENTRY_AGE_MS = 60_000;
/** An address that is not there is asked for again after a second: guessing must not reach the database. */
const UNKNOWN_AGE_MS = 1_000;
const DEFAULT_CAPACITY = 100_000;

type Waiter = { resolve: (entry: DirectoryEntry | undefined) => void; reject: (error: unknown) => void };

export class MonitorDirectory {
  readonly #options: DirectoryOptions;
  readonly #capacity: number;
  readonly #now: () => number;
  readonly #entries = new Map<string, DirectoryEntry>();
  readonly #unknown = new Map<string, number>();
  #waiting = new Map<string, Waiter[]>();
  #isLoading = false;

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.#capacity = options.capacity ?? DEFAULT_CAPACITY;
    this.#now = options.now ?? (() => performance.now());
  }

  /** The entry if it is here and young; else undefined, and `load` finds out. `address` in lower case. */
  peek(address: string): DirectoryEntry | undefined {
    const entry = this.#entries.get(address);
    if (!entry || this.#now() - entry.loadedAt > ENTRY_AGE_MS) return undefined;
    return entry;
  }

  /** Finds the monitor of an address; undefined when there is none. One query serves all that ask meanwhile. */
  load(address: string): Promise<DirectoryEntry | undefined> {
    const unknownSince = this.#unknown.get(address);
    if (unknownSince !== undefined && this.#now() - unknownSince < UNKNOWN_AGE_MS) {
      return Promise.resolve(undefined);
    }
    return new Promise((resolve, reject) => {
      const waiters = this.#waiting.get(address);
      if (waiters) waiters.push({ resolve, reject });
      else this.#waiting.set(address, [{ resolve, reject }]);
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

  async #loadWaiting(): Promise<void> {
    this.#isLoading = true;
    while (this.#waiting.size > 0) {
      const batch = this.#waiting;
      this.#waiting = new Map();
      try {
        const found = await this.#read(this.#options.db, [...batch.keys()]);
        for (const [address, waiters] of batch) {
          const entry = found.get(address);
          if (entry) this.#remember(entry);
          else this.#forget(address);
          for (const waiter of waiters) waiter.resolve(entry);
        }
      } catch (error) {
        for (const waiters of batch.values()) for (const waiter of waiters) waiter.reject(error);
      }
    }
    this.#isLoading = false;
  }

  async #read(db: Queryable, addresses: readonly string[]): Promise<Map<string, DirectoryEntry>> {
    const rows: Map<string, AddressRow> = await findAddresses(db, addresses);
    const monitors = await loadTimings(db, [...rows.values()], this.#options.minimumIntervalMs);
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
