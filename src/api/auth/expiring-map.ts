// A bounded map whose entries expire. A full map drops its oldest entry. Time is the monotonic clock of the
// process; tests set it.

export class ExpiringMap<Value> {
  readonly #entries = new Map<string, { value: Value; endsAtMs: number }>();
  readonly #most: number;
  readonly #now: () => number;

  constructor(most: number, now: () => number = () => performance.now()) {
    this.#most = most;
    this.#now = now;
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    if (entry.endsAtMs > this.#now()) return entry.value;
    this.#entries.delete(key);
    return undefined;
  }

  set(key: string, value: Value, forMs: number): void {
    this.#entries.delete(key);
    if (this.#entries.size >= this.#most) {
      const [oldest] = this.#entries.keys();
      if (oldest !== undefined) this.#entries.delete(oldest);
    }
    this.#entries.set(key, { value, endsAtMs: this.#now() + forMs });
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }
}
