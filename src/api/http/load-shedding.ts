// Refuses calls while the process is so busy that its turns come late: 503 with Retry-After, before a call costs anything.
import underPressure from '@fastify/under-pressure';
import type { FastifyInstance } from 'fastify';
import { ProblemError } from '../../domain/problem.ts';

const MAX_EVENT_LOOP_DELAY_MS = 1_500;
/** A start stalls by itself, on a small machine for seconds: that is no load, and it is over when the first call comes. */
const WARM_UP_MS = 5_000;

/** Registers it for all routes of `app`. `maxDelayMs`: how late a turn may come on average; 0: nothing is refused. */
export async function registerLoadShedding(
  app: FastifyInstance,
  maxDelayMs = MAX_EVENT_LOOP_DELAY_MS,
): Promise<void> {
  let warmAt = Number.POSITIVE_INFINITY;
  app.addHook('onReady', async () => {
    warmAt = performance.now() + WARM_UP_MS;
  });
  await app.register(underPressure, {
    maxEventLoopDelay: maxDelayMs,
    pressureHandler: () => {
      if (performance.now() < warmAt) return;
      const detail = 'The service has too much to do at this moment: try again.';
      throw new ProblemError('temporarily_unavailable', { detail, retryAfterSeconds: 1 });
    },
  });
}
