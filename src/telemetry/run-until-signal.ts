// Runs a role until SIGTERM or SIGINT. After a signal the process is not ready, waits until it gets no new work, and
// ends its work within a time limit. A second signal changes nothing.
import { setTimeout as delay } from 'node:timers/promises';
import type { Telemetry } from './telemetry.ts';

/** Shorter than the `terminationGracePeriodSeconds` of the chart. */
export const SHUTDOWN_LIMIT_MS = 25_000;

export interface Running {
  /** Ends the role's work: accepts nothing new, finishes what it has begun, closes connections. */
  close(): Promise<void>;
}

/**
 * Starts a role, and after a signal closes it. Resolves to the exit code: 0, or 1 if closing failed or took more than
 * 25 s. Rejects if the start fails. `drainMs` is how long new work may arrive after the process became not ready.
 */
export async function runUntilSignal(
  start: () => Promise<Running>,
  { log, readiness }: Pick<Telemetry, 'log' | 'readiness'>,
  drainMs = 0,
): Promise<number> {
  const signalled = nextSignal(); // before the start: a signal during the start must not be lost
  const starting = start();
  const signal = await Promise.race([signalled, starting.then(() => signalled)]);
  log.info({ signal }, 'Shutting down.');
  readiness.beginShutdown();
  const limit = new AbortController();
  try {
    const end = async () => {
      const running = await starting;
      await delay(drainMs);
      await running.close();
    };
    const late = delay(SHUTDOWN_LIMIT_MS, undefined, { signal: limit.signal }).then((): never => {
      throw new Error(`The shutdown took more than ${SHUTDOWN_LIMIT_MS} ms.`);
    });
    await Promise.race([end(), late]);
    log.info('Shut down.');
    return 0;
  } catch (error) {
    log.error({ err: error }, 'The shutdown failed.');
    return 1;
  } finally {
    limit.abort();
  }
}

function nextSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => resolve(signal));
  });
}
