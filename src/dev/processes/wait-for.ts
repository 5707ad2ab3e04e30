// Waits for a state until a deadline: the only way in which development and tests let time pass.
import { setTimeout as delay } from 'node:timers/promises';

export interface WaitOptions {
  /** The awaited state, for the error message: "the server is ready". */
  what?: string;
  timeoutMs?: number;
  intervalMs?: number;
  signal?: AbortSignal | undefined;
}

/**
 * Calls `probe` until it returns something other than undefined, null or false, and resolves to that. A probe that
 * throws counts as "not yet"; its last error is the `cause` of the time-out.
 */
export async function waitFor<T>(
  probe: () => Promise<T | undefined | null | false> | T | undefined | null | false,
  { what = 'the awaited state', timeoutMs = 15_000, intervalMs = 50, signal }: WaitOptions = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  let cause: unknown;
  for (;;) {
    signal?.throwIfAborted();
    try {
      const answer = await probe();
      if (answer !== undefined && answer !== null && answer !== false) return answer;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    if (performance.now() >= deadline) {
      throw new Error(`Not within ${timeoutMs} ms: ${what}`, { cause });
    }
    await delay(intervalMs, undefined, signal ? { signal } : {});
  }
}
