// Finds monitors by publish address: a bounded cache, filled in batches. An entry may be stale: the batch compares its
// configuration version with that of the locked live row and reloads it, so nothing is decided on a stale entry. While
// the database is away an old entry serves, and an address without an entry waits for a while.
import { type FindPlan, findPlan as findBuiltInPlan } from '../domain/plan.ts';
import { type CompiledRules, compileRules } from '../domain/rules/compile.ts';
import {
  findWatchedAddresses,
  listWatchedAddresses,
  type WatchedAddress,
} from '../store/beats/publish-addresses.ts';
import type { Tenant } from '../store/monitors/monitor-record.ts';
import type { WatchedMonitor } from '../store/monitors/watched-monitor.ts';
import { afterReading } from '../store/postgres/after-reading.ts';
import { isDatabaseUnavailable } from '../store/postgres/database-error.ts';
import type { Queryable } from '../store/postgres/pool.ts';
import { type BeatTenant, Tenants } from './tenants.ts';

export interface DirectoryEntry extends Omit<WatchedAddress, 'monitor'> {
  monitor: Omit<WatchedMonitor, keyof Tenant | 'measurements'>;
  /** Absent where its beats are judged by none. */
  rules?: CompiledRules;
  /** Shared by the project's entries, and kept up to date. The configuration version does not cover it. */
  tenant: BeatTenant;
  loadedAt: number;
  /** The number of its database; undefined where there is one. */
  home?: number;
}

export interface DirectoryOptions {
  db: Queryable;
  /** The number of the database; undefined where there is one. */
  home?: number;
  minimumIntervalMs: number;
  /** Default: the built-in catalogue. */
  findPlan?: FindPlan;
  /** The most entries kept; the one loaded longest ago is dropped. */
  capacity?: number;
  /** How long an address waits for a database that is away. */
  patienceMs?: number;
  /** Called for each failed look-up, which is tried again while somebody waits, and for rules that cannot be compiled. */
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
const EXPIRY_MS = 250;
/** In one statement: few, so that each of them ends well within its time limit, however many addresses wait. */
const LOOKUP_SIZE = 256;
const PRELOAD_SIZE = 1_000;
/** A start waits this long for the addresses; those that are not loaded then are looked up with their first beat. */
const PRELOAD_MS = 3_000;

interface Waiter {
  expiresAt: number;
  resolve: (entry: DirectoryEntry | undefined) => void;
  reject: (error: unknown) => void;
}

export class MonitorDirectory {
  readonly #options: DirectoryOptions;
  readonly #capacity: number;
  readonly #now: () => number;
  /** Of the entries. Start it to keep them up to date. */
  readonly tenants: Tenants;
  readonly #entries = new Map<string, DirectoryEntry>();
  readonly #unknown = new Map<string, number>();
  #waiting = new Map<string, Waiter[]>();
  /** The part of the waiters that a statement is asking for. */
  #asking = new Map<string, Waiter[]>();
  #isLoading = false;

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.#capacity = options.capacity ?? DEFAULT_CAPACITY;
    this.#now = options.now ?? (() => performance.now());
    const { db, onError, findPlan = findBuiltInPlan } = options;
    this.tenants = new Tenants({ db, findPlan, onError, keptMs: ENTRY_AGE_MS, now: this.#now });
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

  /**
   * Loads addresses before the first beat, as many as are kept. Stops after some seconds, and while the database does not
   * answer. Never rejects.
   */
  async preload(): Promise<void> {
    const { db, minimumIntervalMs } = this.#options;
    const endAt = this.#now() + PRELOAD_MS;
    let after: string | undefined;
    try {
      while (this.#now() < endAt && this.#entries.size < this.#capacity) {
        const limit = Math.min(PRELOAD_SIZE, this.#capacity - this.#entries.size);
        const readAt = this.#now();
        const page = await listWatchedAddresses(db, { after, limit }, minimumIntervalMs);
        for (const address of page) this.#remember(this.#toEntry(address, readAt));
        if (page.length < limit) return;
        after = page.at(-1)?.address;
      }
    } catch (error) {
      this.#options.onError?.(error);
    }
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
    const expiry = setInterval(() => afterReading(() => this.#expire()), EXPIRY_MS);
    while (this.#waiting.size > 0) {
      this.#asking = takeFirst(this.#waiting, LOOKUP_SIZE);
      const addresses = [...this.#asking.keys()];
      try {
        const found = await this.#read(this.#options.db, addresses);
        for (const address of addresses) {
          const entry = found.get(address);
          if (entry) this.#remember(entry);
          else this.#forget(address);
          for (const waiter of this.#asking.get(address) ?? []) waiter.resolve(entry);
        }
      } catch (error) {
        this.#options.onError?.(error);
        for (const [address, waiters] of this.#asking) this.#doWithout(address, waiters, error);
        if (this.#waiting.size > 0) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
    clearInterval(expiry);
    this.#asking.clear();
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

  /** Nobody waits past his own time because a look-up hangs. Who is answered here is not answered again. */
  #expire(): void {
    const now = this.#now();
    for (const waiting of [this.#waiting, this.#asking]) {
      for (const [address, waiters] of waiting) {
        const entry = this.#entries.get(address);
        const left: Waiter[] = [];
        for (const waiter of waiters) {
          if (waiter.expiresAt > now) left.push(waiter);
          else if (entry) waiter.resolve(entry);
          else waiter.reject(new Error('The address could not be looked up in time.'));
        }
        if (left.length > 0) waiting.set(address, left);
        else waiting.delete(address);
      }
    }
  }

  async #read(db: Queryable, addresses: readonly string[]): Promise<Map<string, DirectoryEntry>> {
    const readAt = this.#now();
    const found = await findWatchedAddresses(db, addresses, this.#options.minimumIntervalMs);
    return new Map(found.map((address) => [address.address, this.#toEntry(address, readAt)]));
  }

  #toEntry({ monitor: watched, ...address }: WatchedAddress, readAt: number): DirectoryEntry {
    const { organizationId, projectName, planId, serviceState, returnedMs, measurements, ...monitor } =
      watched;
    const read = { organizationId, projectName, planId, serviceState, returnedMs };
    const tenant = this.tenants.share(monitor.projectId, read, readAt);
    const rules = this.#toRules(measurements, monitor.monitorKey);
    return { ...address, monitor, rules, tenant, loadedAt: this.#now(), home: this.#options.home };
  }

  /**
   * Of a configuration at fault: none, so that the beats of its monitor are kept and not judged. An error here would stop every
   * other monitor that is looked up with it.
   */
  #toRules(measurements: WatchedMonitor['measurements'], monitorKey: string): CompiledRules | undefined {
    if (!measurements) return undefined;
    try {
      const rules = compileRules(measurements);
      return rules.measurements.size > 0 ? rules : undefined;
    } catch (cause) {
      this.#options.onError?.(new Error(`The rules of the monitor ${monitorKey} are at fault.`, { cause }));
      return undefined;
    }
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

/** Takes the first entries out of a map, at most `count`. */
function takeFirst<Value>(map: Map<string, Value>, count: number): Map<string, Value> {
  const taken = new Map<string, Value>();
  for (const [key, value] of map) {
    if (taken.size === count) break;
    taken.set(key, value);
    map.delete(key);
  }
  return taken;
}
