// What publish addresses begin with now, by the answers of the status feed: an installation may get another public address,
// and the Secrets have to follow, without a read of each monitor.

/** While an installation is changed, its replicas give answers of both kinds: only one that lasts counts. */
const SETTLE_MS = 5_000;

export class PublishBase {
  readonly #settleMs: number;
  readonly #onChange: () => void;
  #current: string | undefined;
  #next: { base: string; timer: NodeJS.Timeout } | undefined;
  #knownSinceMs: number | undefined;

  /** `onChange`: another base is in force. Not called for the first one. */
  constructor(onChange: () => void, settleMs = SETTLE_MS) {
    this.#onChange = onChange;
    this.#settleMs = settleMs;
  }

  /** Since when the present one counts, ms of the process's clock. Undefined: none is known. */
  get knownSinceMs(): number | undefined {
    return this.#knownSinceMs;
  }

  /** False for an address with another base. True while none is known. */
  isOf(url: string): boolean {
    return this.#current === undefined || url.startsWith(`${this.#current}/ping/`);
  }

  /** An answer of the API has this base. */
  note(base: string): void {
    if (this.#current === undefined) this.#adopt(base);
    if (base === this.#next?.base) return;
    this.stop();
    if (base === this.#current) return;
    const settle = () => {
      this.#adopt(base);
      this.#onChange();
    };
    this.#next = { base, timer: setTimeout(settle, this.#settleMs).unref() };
  }

  stop(): void {
    clearTimeout(this.#next?.timer);
    this.#next = undefined;
  }

  #adopt(base: string): void {
    this.#current = base;
    this.#next = undefined;
    this.#knownSinceMs = performance.now();
  }
}
