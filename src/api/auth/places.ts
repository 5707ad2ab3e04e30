// Bounds how many pieces of work run at once. Further ones wait in their order, as long as their patience lasts.

export class Places {
  #free: number;
  /** Each lets one in. */
  readonly #waiting = new Set<() => void>();

  constructor(total: number) {
    this.#free = total;
  }

  /** Rejects with the signal's reason when the patience ends before there is a place. */
  async run<Result>(work: () => Promise<Result>, patience: AbortSignal): Promise<Result> {
    await this.#enter(patience);
    try {
      return await work();
    } finally {
      this.#leave();
    }
  }

  async #enter(patience: AbortSignal): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    patience.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const letIn = () => {
        patience.removeEventListener('abort', giveUp);
        resolve();
      };
      const giveUp = () => {
        this.#waiting.delete(letIn);
        reject(patience.reason);
      };
      patience.addEventListener('abort', giveUp, { once: true });
      this.#waiting.add(letIn);
    });
  }

  /** The place passes to who waits first. */
  #leave(): void {
    const [letIn] = this.#waiting;
    if (letIn) {
      this.#waiting.delete(letIn);
      letIn();
    } else this.#free += 1;
  }
}
