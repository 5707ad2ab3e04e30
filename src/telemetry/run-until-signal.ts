// The end of a process: on SIGTERM or SIGINT it first says that it is not ready, waits until it gets no new work,
// then ends its work. A second signal changes nothing; a limit does.
import { setTimeout as delay } from 'node:timers/promises';
import type { Telemetry } from './telemetry.ts';

const SHUTDOWN_LIMIT_MS = 25_000;

export interface Running {
  /** Ends the role's work: stops accepting, finishes what was begun, closes connections. */
  close(): Promise<void>;
}

/**
 * Resolves with the exit code when the process was told to end and `running` has closed: 0, or 1 when that
 * failed or took more than 25 s. `drainMs`: how long after "not ready" new work may still arrive.
 */
export async function runUntilSignal(
  running: Running,
  telemetry: Pick<Telemetry, 'log' | 'readiness'>,
  drainMs = 0,
): Promise<number> {
  const signal = await nextSignal();
  telemetry.log.info({ signal }, 'Ending.');
  telemetry.readiness.beginShutdown();
  try {
    const limit = AbortSignal.timeout(SHUTDOWN_LIMIT_MS);
    await Promise.race([end(running, drainMs), rejectOnAbort(limit)]);
    telemetry.log.info('Ended.');
    return 0;
  } catch (error) {
    telemetry.log.error({ err: error }, 'The end was not an orderly one.');
    return 1;
  }
}

function nextSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => resolve(signal));
  });
}

async function end(running: Running, drainMs: number): Promise<void> {
  if (drainMs > 0) await delay(drainMs);
  await running.close();
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
