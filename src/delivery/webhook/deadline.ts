// The end of an attempt's time: a timer and the one that waits for it. An AbortController with its listeners costs as much
// as the signature.

export class Deadline {
  readonly #timer: NodeJS.Timeout;
  #isOver = false;
  #onOver: (() => void) | undefined;

  /** Starts at once. `clear` it when the attempt is over. */
  constructor(timeoutMs: number) {
    this.#timer = setTimeout(() => {
      this.#isOver = true;
      this.#onOver?.();
    }, timeoutMs);
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Calls `onOver` when the time is over, in place of the one before: the steps of an attempt follow one another. */
  watch(onOver: () => void): void {
    this.#onOver = onOver;
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}
