// Reads that calls share: of many calls for one key one reads, and what it found is kept for a while. A failed read and
// one that found nothing are not kept, so that what is new works at once.
import { ExpiringMap } from './expiring-map.ts';

export class SharedReads<Value> {
  readonly #reads: ExpiringMap<Promise<Value | undefined>>;
  readonly #keptMs: number;

  /** `keptMs` counts from the start of a read. */
  constructor(options: { most: number; keptMs: number; now?: () => number }) {
    this.#reads = new ExpiringMap(options.most, options.now);
    this.#keptMs = options.keptMs;
  }

  has(key: string): boolean {
    return this.#reads.get(key) !== undefined;
  }

  get(key: string, read: () => Promise<Value | undefined>): Promise<Value | undefined> {
    const known = this.#reads.get(key);
    if (known) return known;
    const reading = read();
    this.#reads.set(key, reading, this.#keptMs);
    const drop = () => {
      if (this.#reads.get(key) === reading) this.#reads.delete(key);
    };
    reading.then((value) => value ?? drop(), drop);
    return reading;
  }

  /** The next call reads again. */
  forget(key: string): void {
    this.#reads.delete(key);
  }
}
