// Waits for work no longer than a time: a database that hangs must not hold up the end of the process.
import { setTimeout as delay } from 'node:timers/promises';

/** Whether the work ends within `ms`; it is left alone after that. Throws what it throws until then. */
export async function endsWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const limit = new AbortController();
  const late = delay(ms, false, { signal: limit.signal }).catch(() => false);
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    limit.abort();
  }
}
