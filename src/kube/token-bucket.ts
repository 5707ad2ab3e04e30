// A token bucket: `burst` at once, `perSecond` in the long run. Time is passed in.

/** Credit beyond this is given for nothing: one long failure must not make those after it wait for its debts. */
const maxCreditSeconds = 60;

export class TokenBucket {
  readonly #perSecond: number;
  readonly #burst: number;
  #tokens: number;
  #filledAtMs: number | undefined;

  constructor(perSecond: number, burst: number) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#tokens = burst;
  }

  /**
   * Takes a token, on credit if there is none. Returns the milliseconds until it is really there: a minute at most,
   * however many wait, so that the rate is exceeded rather than somebody forgotten.
   */
  reserve(nowMs: number): number {
    this.#fill(nowMs);
    this.#tokens = Math.max(this.#tokens - 1, -maxCreditSeconds * this.#perSecond);
    return this.#tokens >= 0 ? 0 : (-this.#tokens / this.#perSecond) * 1000;
  }

  /** Takes a token if there is one. */
  tryTake(nowMs: number): boolean {
    this.#fill(nowMs);
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  #fill(nowMs: number): void {
    const elapsedMs = Math.max(0, nowMs - (this.#filledAtMs ?? nowMs));
    this.#filledAtMs = nowMs;
    this.#tokens = Math.min(this.#burst, this.#tokens + (elapsedMs / 1000) * this.#perSecond);
  }
}
