// How often something is tried: exponential delays with jitter, and a token bucket. Pure: time and randomness are
// passed in.

export interface BackoffOptions {
  baseMs: number;
  maxMs: number;
  /** 0..1; the default is Math.random. */
  random?: () => number;
}

/** Delay before try `failures` (1 = after the first failure): base × 2^(failures−1), at most `maxMs`, ±20 %. */
export function backoffMs(failures: number, options: BackoffOptions): number {
  const exponent = Math.min(Math.max(failures, 1) - 1, 30);
  const delayMs = Math.min(options.baseMs * 2 ** exponent, options.maxMs);
  return jitterMs(delayMs, options.random);
}

/** `delayMs` ±20 %. */
export function jitterMs(delayMs: number, random: () => number = Math.random): number {
  return delayMs * (0.8 + 0.4 * random());
}

/** The longest wait that a reservation can cause: a mass failure must not delay retries long after it has ended. */
const maxCreditSeconds = 60;

/** `burst` tokens at once, `perSecond` in the long run. */
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
   * Takes a token, on credit if there is none, and returns the milliseconds until the credit is paid: at most a
   * minute. When more callers wait than that allows, the rate is exceeded.
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

  /** True if it gives what a new one would give. */
  isFull(nowMs: number): boolean {
    this.#fill(nowMs);
    return this.#tokens === this.#burst;
  }

  #fill(nowMs: number): void {
    const elapsedMs = Math.max(0, nowMs - (this.#filledAtMs ?? nowMs));
    this.#filledAtMs = nowMs;
    this.#tokens = Math.min(this.#burst, this.#tokens + (elapsedMs / 1000) * this.#perSecond);
  }
}
