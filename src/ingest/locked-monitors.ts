// Monitors whose live rows somebody else holds locked. Their beats wait alone, without a lane, and are tried again every
// now and then. While there are such rows no batch waits for a lock: the next row may be one of them.
const RETRY_MS = 100;
/** So long after the last lock that was met. */
const SKIP_MS = 1_000;

export class LockedMonitors {
  readonly #retry: () => void;
  readonly #monitors = new Set<string>();
  #skipsUntil = 0;

  /** `retry`: called when the beats of the monitors that were added may be tried again. */
  constructor(retry: () => void) {
    this.#retry = retry;
  }

  /** Whether batches skip rows that are locked, in place of waiting for them. */
  get skips(): boolean {
    return performance.now() < this.#skipsUntil;
  }

  /** A batch has met a lock. Returns whether skipping locked rows is new, and may help. */
  startSkipping(): boolean {
    const isNew = !this.skips;
    this.#skipsUntil = performance.now() + SKIP_MS;
    return isNew;
  }

  /** Whether the monitor's beats wait. */
  has(monitorKey: string): boolean {
    return this.#monitors.has(monitorKey);
  }

  add(monitorKey: string): void {
    this.startSkipping();
    if (this.#monitors.size === 0) setTimeout(() => this.#release(), RETRY_MS);
    this.#monitors.add(monitorKey);
  }

  #release(): void {
    this.#monitors.clear();
    this.#retry();
  }
}
