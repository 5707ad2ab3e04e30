// A map in the order of last use, oldest first, that can be held at a size.

export class RecentlyUsed<Entry> extends Map<string, Entry> {
  /** The entry of the key, or a new one. It is the newest then. */
  use(key: string, create: () => Entry): Entry {
    const entry = this.get(key) ?? create();
    this.delete(key);
    this.set(key, entry);
    return entry;
  }

  /** Drops the oldest entries beyond `maxEntries`, but none in use, and returns them. */
  dropSurplus(maxEntries: number, isInUse: (entry: Entry) => boolean): Entry[] {
    const dropped: Entry[] = [];
    for (const [key, entry] of this) {
      if (this.size <= maxEntries) break;
      if (isInUse(entry)) continue;
      this.delete(key);
      dropped.push(entry);
    }
    return dropped;
  }
}
