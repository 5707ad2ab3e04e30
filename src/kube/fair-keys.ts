// Keys that wait, each once: first in, first out within a group, and the groups in turn.

export class FairKeys {
  readonly #groupOf: (key: string) => string;
  /** The group whose turn is next stands first. No group is empty. */
  readonly #groups = new Map<string, Set<string>>();
  #size = 0;

  constructor(groupOf: (key: string) => string) {
    this.#groupOf = groupOf;
  }

  get size(): number {
    return this.#size;
  }

  has(key: string): boolean {
    return this.#groups.get(this.#groupOf(key))?.has(key) ?? false;
  }

  /** A key that waits already keeps its place. */
  add(key: string): void {
    const name = this.#groupOf(key);
    const group = this.#groups.get(name) ?? new Set<string>();
    if (group.has(key)) return;
    group.add(key);
    this.#groups.set(name, group);
    this.#size += 1;
  }

  delete(key: string): void {
    const name = this.#groupOf(key);
    const group = this.#groups.get(name);
    if (!group?.delete(key)) return;
    this.#size -= 1;
    if (group.size === 0) this.#groups.delete(name);
  }

  /** Removes and returns the next key; its group goes behind the others. */
  next(): string | undefined {
    for (const [name, group] of this.#groups) {
      this.#groups.delete(name);
      for (const key of group) {
        group.delete(key);
        this.#size -= 1;
        if (group.size > 0) this.#groups.set(name, group);
        return key;
      }
    }
    return undefined;
  }
}
