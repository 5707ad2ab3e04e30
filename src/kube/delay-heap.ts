// Keys by due time: the earliest first, each key once, any key removable. A binary heap; pure.

interface HeapItem {
  key: string;
  dueMs: number;
}

export class DelayHeap {
  readonly #items: HeapItem[] = [];
  readonly #positions = new Map<string, number>();

  get size(): number {
    return this.#items.length;
  }

  /** When the earliest key is due. */
  get earliestMs(): number | undefined {
    return this.#items[0]?.dueMs;
  }

  /** When this key is due. */
  dueMs(key: string): number | undefined {
    const position = this.#positions.get(key);
    return position === undefined ? undefined : this.#items[position]?.dueMs;
  }

  /** Puts a key in, or moves it. */
  set(key: string, dueMs: number): void {
    this.remove(key);
    this.#items.push({ key, dueMs });
    this.#positions.set(key, this.#items.length - 1);
    this.#rise(this.#items.length - 1);
  }

  /** True if it was there. */
  remove(key: string): boolean {
    const position = this.#positions.get(key);
    if (position === undefined) return false;
    const last = this.#items.length - 1;
    this.#swap(position, last);
    this.#items.pop();
    this.#positions.delete(key);
    if (position < last) {
      this.#rise(position);
      this.#sink(position);
    }
    return true;
  }

  /** Takes out the earliest key if it is due at `nowMs`. */
  takeDue(nowMs: number): string | undefined {
    const first = this.#items[0];
    if (first === undefined || first.dueMs > nowMs) return undefined;
    this.remove(first.key);
    return first.key;
  }

  #rise(start: number): void {
    let position = start;
    while (position > 0) {
      const parent = (position - 1) >> 1;
      if (!this.#isBefore(position, parent)) return;
      this.#swap(position, parent);
      position = parent;
    }
  }

  #sink(start: number): void {
    let position = start;
    for (;;) {
      const left = 2 * position + 1;
      const right = left + 1;
      let least = position;
      if (this.#isBefore(left, least)) least = left;
      if (this.#isBefore(right, least)) least = right;
      if (least === position) return;
      this.#swap(position, least);
      position = least;
    }
  }

  #isBefore(a: number, b: number): boolean {
    const first = this.#items[a];
    const second = this.#items[b];
    return first !== undefined && second !== undefined && first.dueMs < second.dueMs;
  }

  #swap(a: number, b: number): void {
    const first = this.#items[a];
    const second = this.#items[b];
    if (first === undefined || second === undefined) return;
    this.#items[a] = second;
    this.#items[b] = first;
    this.#positions.set(second.key, a);
    this.#positions.set(first.key, b);
  }
}
