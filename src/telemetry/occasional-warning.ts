// A warning that would repeat as long as one fault lasts, such as an unreachable database. The first occurrence is
// logged at once, then one every few seconds, with the number of occurrences in between.
import type { Log } from './log.ts';

export class OccasionalWarning {
  readonly #log: Pick<Log, 'warn'>;
  readonly #message: string;
  readonly #everyMs: number;
  #timer: NodeJS.Timeout | undefined;
  #unlogged = 0;
  #newest: object = {};

  constructor(log: Pick<Log, 'warn'>, message: string, everyMs = 5_000) {
    this.#log = log;
    this.#message = message;
    this.#everyMs = everyMs;
  }

  /** Logs an occurrence: at once, or later with the newest `fields` and the number of `others` since the last line. */
  record(fields: object): void {
    if (this.#timer === undefined) {
      this.#write(fields);
      return;
    }
    this.#unlogged += 1;
    this.#newest = fields;
  }

  #write(fields: object): void {
    this.#log.warn(fields, this.#message);
    this.#timer = setTimeout(() => this.#wake(), this.#everyMs);
    this.#timer.unref();
  }

  #wake(): void {
    this.#timer = undefined;
    if (this.#unlogged === 0) return;
    const fields = { ...this.#newest, others: this.#unlogged - 1 };
    this.#unlogged = 0;
    this.#newest = {};
    this.#write(fields);
  }
}
