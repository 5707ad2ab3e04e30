// What publish addresses begin with now, by the answers of the status feed: an installation may get another public address,
// and the Secrets have to follow, without a read of each monitor.

/**
 * While an installation is changed, its replicas give answers of both kinds. Another base counts when two answers that are
 * at least this far apart name it, and none between them the present one: silence proves nothing.
 */
const CONFIRM_MS = 5_000;

export class PublishBase {
  readonly #onChange: () => void;
  #current: string | undefined;
  #next: { base: string; sinceMs: number } | undefined;
  #knownSinceMs: number | undefined;

  /** `onChange`: another base is in force. Not called for the first one. */
  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /** Since when the present one counts, ms of the process's clock. Undefined: none is known. */
  get knownSinceMs(): number | undefined {
    return this.#knownSinceMs;
  }

  /** The last answer has named another base, which no second one has confirmed. */
  get isInDoubt(): boolean {
    return this.#next !== undefined;
  }

  /** False for an address with another base. True while none is known. */
  isOf(url: string): boolean {
    return this.#current === undefined || url.startsWith(`${this.#current}/ping/`);
  }

  /** An answer of the API has this base. */
  note(base: string): void {
    if (this.#current === undefined) this.#adopt(base);
    else if (base === this.#current) this.#next = undefined;
    else if (base !== this.#next?.base) this.#next = { base, sinceMs: performance.now() };
    else if (performance.now() - this.#next.sinceMs >= CONFIRM_MS) {
      this.#adopt(base);
      this.#onChange();
    }
  }

  #adopt(base: string): void {
    this.#current = base;
    this.#next = undefined;
    this.#knownSinceMs = performance.now();
  }
}
