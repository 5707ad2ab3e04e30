// The time by the clock of the API, as its answers state it. No clock of this machine that somebody can set is in it, but for
// the time before the first answer.

export class ApiClock {
  #heard: { dateMs: number; atMs: number } | undefined;

  /** `date`: the header of an answer. It states a whole second that has begun: the next one is never too early. */
  hear(date: string | string[] | undefined): void {
    const dateMs = Date.parse(String(date));
    if (!Number.isNaN(dateMs)) this.#heard = { dateMs: dateMs + 1000, atMs: performance.now() };
  }

  get nowMs(): number {
    if (this.#heard === undefined) return Date.now();
    return this.#heard.dateMs + performance.now() - this.#heard.atMs;
  }
}
