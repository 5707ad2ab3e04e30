// The life of a process between its start and SIGTERM or SIGINT. On a signal it says that it is not ready, waits
// until it gets no new work, then ends its work. A second signal changes nothing; a limit does.
import { setTimeout as delay } from 'node:timers/promises';
import type { Telemetry } from './telemetry.ts';

const SHUTDOWN_LIMIT_MS = 25_000;

export interface Running {
  /** Ends the role's work: stops accepting, finishes what was begun, closes connections. */
  close(): Promise<void>;
}

/**
 * Starts a role and resolves, when the process was told to end and the role has closed, with the exit code:
 * 0, or 1 when the end failed or took more than 25 s. Rejects when the start fails.
 * `drainMs`: how long after "not ready" new work may still arrive.
 */
export async function runUntilSignal(
  start: () => Promise<Running>,
  { log, readiness }: Pick<Telemetry, 'log' | 'readiness'>,
  drainMs = 0,
): Promise<number> {
  const told = nextSignal(); // before the start: a signal during it must not be lost
  const starting = start();
  const signal = await Promise.race([told, starting.then(() => told)]);
  log.info({ signal }, 'Ending.');
  readiness.beginShutdown();
  const limit = new AbortController();
  try {
    const end = async () => {
      const running = await starting;
      await delay(drainMs);
      await running.close();
    };
    const late = delay(SHUTDOWN_LIMIT_MS, undefined, { signal: limit.signal }).then((): never => {
      throw new Error(`Not ended after ${SHUTDOWN_LIMIT_MS} ms.`);
    });
    await Promise.race([end(), late]);
    log.info('Ended.');
    return 0;
  } catch (error) {
    log.error({ err: error }, 'The end was not an orderly one.');
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
