// Delays between tries: exponential, with jitter, bounded. Pure but for the random source passed in.

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
