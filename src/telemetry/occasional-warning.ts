// A warning of what happens again and again while one thing is wrong, such as a database that is away: the first is
// told at once, and then one in some seconds, with the number of those that were not told.
import type { Log } from './log.ts';

export class OccasionalWarning {
  readonly #log: Pick<Log, 'warn'>;
  readonly #words: string;
  readonly #everyMs: number;
  #timer: NodeJS.Timeout | undefined;
  #untold = 0;
  #newest: object = {};

  constructor(log: Pick<Log, 'warn'>, words: string, everyMs = 5_000) {
    this.#log = log;
    this.#words = words;
    this.#everyMs = everyMs;
  }

  /** Tells of it now or with others; `fields` are shown of the newest, with `others`: how many came before it. */
  tell(fields: object): void {
    if (this.#timer === undefined) {
      this.#write(fields);
      return;
    }
    this.#untold += 1;
    this.#newest = fields;
  }

  #write(fields: object): void {
    this.#log.warn(fields, this.#words);
    this.#timer = setTimeout(() => this.#wake(), this.#everyMs);
    this.#timer.unref();
  }

  #wake(): void {
    this.#timer = undefined;
    if (this.#untold === 0) return;
    const fields = { ...this.#newest, others: this.#untold - 1 };
    this.#untold = 0;
    this.#newest = {};
    this.#write(fields);
  }
}
