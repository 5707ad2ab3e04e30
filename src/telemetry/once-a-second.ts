// Work that others ask for and that runs at most once a second, however many ask: they share the result.

const FRESH_MS = 1_000;

/** In ms, never set back; tests set it. */
export type Now = () => number;

export class OnceASecond<Result> {
  readonly #run: () => Promise<Result>;
  readonly #now: Now;
  #result: Promise<Result> | undefined;
  #freshUntil = 0;

  constructor(run: () => Promise<Result>, now: Now = () => performance.now()) {
    this.#run = run;
    this.#now = now;
  }

  /** A result at most a second old. Rejects as the run did. */
  get(): Promise<Result> {
    if (this.#result !== undefined && this.#now() < this.#freshUntil) return this.#result;
    this.#freshUntil = Number.POSITIVE_INFINITY; // who asks meanwhile waits for this run
    this.#result = this.#run().finally(() => {
      this.#freshUntil = this.#now() + FRESH_MS;
    });
    return this.#result;
  }

  /** The next one who asks starts a run. */
  forget(): void {
    this.#result = undefined;
  }
}
