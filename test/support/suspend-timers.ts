// For tests of what ends before its time: the time never comes, so no machine is too slow to tell the two apart.
import { vi } from 'vitest';

/** Timers of exactly so many milliseconds that begin from now on in this process never fire. Call the result to undo it. */
export function suspendTimers(lengthMs: number): () => void {
  const begin = globalThis.setTimeout;
  const spy = vi.spyOn(globalThis, 'setTimeout').mockImplementation(((
    callback: () => void,
    ms?: number,
    ...given: []
  ) => {
    const timer = begin(callback, ms, ...given);
    if (ms === lengthMs) clearTimeout(timer);
    return timer;
  }) as typeof setTimeout);
  return () => spy.mockRestore();
}
