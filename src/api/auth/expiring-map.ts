// A bounded map whose entries expire. A full map drops its oldest entry. Time is the monotonic clock of the process.

export class ExpiringMap<Value> {
  readonly #entries = new Map<string, { value: Value; endsAtMs: number }>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    if (entry.endsAtMs > performance.now()) return entry.value;
    this.#entries.delete(key);
    return undefined;
  }

  set(key: string, value: Value, forMs: number): void {
    this.#entries.delete(key);
    if (this.#entries.size >= this.#most) {
      const [oldest] = this.#entries.keys();
      if (oldest !== undefined) this.#entries.delete(oldest);
    }
    this.#entries.set(key, { value, endsAtMs: performance.now() + forMs });
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }
}
