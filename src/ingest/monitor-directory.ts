// Finds monitors by publish address: a bounded cache, filled in batches. An entry may be stale: the batch compares its
// configuration version with that of the locked live row and reloads it, so nothing is decided on a stale entry. While
// the database is away an old entry serves, and an address without an entry waits for a while.
import { type AddressRow, findAddresses } from '../store/beats/beats.ts';
import { loadWatchedMonitors, type WatchedMonitor } from '../store/monitors/watched-monitor.ts';
import { isDatabaseUnavailable } from '../store/postgres/database-error.ts';
import type { Queryable } from '../store/postgres/pool.ts';

export interface DirectoryEntry {
  address: string;
  monitor: WatchedMonitor;
  /** Set on a rotated address. */
  endsMs?: number;
  /** The plan and the project's name are not covered by the configuration version: entries are reloaded with age. */
  loadedAt: number;
}

export interface DirectoryOptions {
  db: Queryable;
  minimumIntervalMs: number;
  /** The most entries kept; the one loaded longest ago is dropped. */
  capacity?: number;
  /** How long an address waits for a database that is away. */
  patienceMs?: number;
  /** Called for each failed look-up, which is tried again while somebody waits. */
  onError?: (error: unknown) => void;
  /** Monotonic clock in ms, for ages only. */
  now?: () => number;
}

/** Ten times the shortest interval: with a lower age an entry would be stale at each beat of its monitor. */
const ENTRY_AGE_MS = 600_000;
/** An unknown address is looked up again after a second: guesses must not reach the database. */
const UNKNOWN_AGE_MS = 1_000;
const DEFAULT_CAPACITY = 100_000;
/** Half of a beat's patience; the other half is for writing it. */
const DEFAULT_PATIENCE_MS = 4_000;
const RETRY_MS = 50;
/** A look-up that takes this long, with its retries, counts as unanswered by the database. */
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
  /** When the look-up began that has not succeeded yet. */
  #askingSince: number | undefined;

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.#capacity = options.capacity ?? DEFAULT_CAPACITY;
    this.#now = options.now ?? (() => performance.now());
  }

  /** For how long look-ups have gone without an answer from the database, in ms; 0 while it answers. */
  get stuckMs(): number {
    const waitedMs = this.#askingSince === undefined ? 0 : this.#now() - this.#askingSince;
    return waitedMs > STUCK_MS ? waitedMs : 0;
  }

  /** The entry if it is cached and fresh; otherwise undefined: call `load`. `address` in lower case. */
  peek(address: string): DirectoryEntry | undefined {
    const entry = this.#entries.get(address);
    if (!entry || this.#now() - entry.loadedAt > ENTRY_AGE_MS) return undefined;
    return entry;
  }

  /**
   * Finds the monitor of an address; undefined if there is none. One query serves all callers that wait. Rejects if the
   * database does not answer in time and the address has no older entry.
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

  /** Reloads entries inside a transaction; an address that has ended is not in the answer. */
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

  /** The database did not answer: an old entry serves, expired waiters are rejected, the others wait for the next try. */
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
