// A token bucket: `burst` at once, `perSecond` in the long run. Time is passed in.

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

  /** Takes a token, on credit if there is none. Returns the milliseconds until it is really there. */
  reserve(nowMs: number): number {
    this.#fill(nowMs);
    this.#tokens -= 1;
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
