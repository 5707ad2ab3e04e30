// The operator's token, from a file that the kubelet writes again before the token ends.
import { readFile } from 'node:fs/promises';

const FRESH_MS = 30_000;

export class TokenSource {
  readonly #file: string;
  #token: string | undefined;
  #readAtMs = 0;

  constructor(file: string) {
    this.#file = file;
  }

  /** The token as of half a minute ago at the oldest. Throws what reading the file throws. */
  async current(): Promise<string> {
    if (this.#token !== undefined && performance.now() - this.#readAtMs < FRESH_MS) return this.#token;
    return await this.refresh();
  }

  /** Reads the file now: after a 401. */
  async refresh(): Promise<string> {
    // Read first: a file that is being replaced must not take the token that we have.
    const token = (await readFile(this.#file, 'utf8')).trim();
    this.#token = token;
    this.#readAtMs = performance.now();
    return token;
  }
}
