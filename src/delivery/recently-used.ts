// A map that is held at a size: the entries that were used least recently go first, those in use never.

export interface RecentlyUsedOptions<Entry> {
  maxEntries: number;
  isInUse: (entry: Entry) => boolean;
  onDrop?: (entry: Entry) => void;
}

export class RecentlyUsed<Entry> {
  readonly #options: RecentlyUsedOptions<Entry>;
  /** In the order of last use, oldest first. */
  readonly #entries = new Map<string, Entry>();

  constructor(options: RecentlyUsedOptions<Entry>) {
    this.#options = options;
  }

  /** Without a use. */
  peek(key: string): Entry | undefined {
    return this.#entries.get(key);
  }

  /** The entry of the key, or a new one. */
  use(key: string, create: () => Entry): Entry {
    const entry = this.#entries.get(key) ?? create();
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry;
  }

  /** Drops the oldest entries beyond `maxEntries` that are not in use. */
  dropSurplus(): void {
    const { maxEntries, isInUse, onDrop } = this.#options;
    let surplus = this.#entries.size - maxEntries;
    for (const [key, entry] of this.#entries) {
      if (surplus <= 0) return;
      if (isInUse(entry)) continue;
      this.#entries.delete(key);
      surplus -= 1;
      onDrop?.(entry);
    }
  }

  /** Drops all entries, those in use too, and returns them. */
  clear(): Entry[] {
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    return entries;
  }
}
