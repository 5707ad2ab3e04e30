// Work that many calls ask for at once and whose result is the same for all of them: one run at a time.

/** Never run twice at the same time; who asks gets a run that begins after the question. */
export class SharedRun {
  readonly #work: () => Promise<void>;
  #running: Promise<void> | undefined;
  /** Begins when the one that runs has ended; all who ask meanwhile share it. */
  #next: Promise<void> | undefined;

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** Rejects as the run does. */
  ask(): Promise<void> {
    if (!this.#running) return this.#begin();
    const begin = () => {
      this.#next = undefined;
      return this.#begin();
    };
    this.#next ??= this.#running.then(begin, begin);
    return this.#next;
  }

  #begin(): Promise<void> {
    const end = () => {
      this.#running = undefined;
    };
    const run = this.#work().finally(end);
    this.#running = run;
    return run;
  }
}
