// Refuses calls with 503 and Retry-After while the event loop is late, before a call costs anything.
import underPressure from '@fastify/under-pressure';
import type { FastifyInstance } from 'fastify';
import { ProblemError } from '../../domain/problem.ts';

const MAX_EVENT_LOOP_DELAY_MS = 1_500;
/** The start itself stalls the event loop, on a small machine for seconds. That is no load: it ends before the first call. */
const WARM_UP_MS = 5_000;

/** For all routes of `app`. `maxDelayMs`: the highest mean delay of the event loop; 0 refuses nothing. */
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
      const detail = 'The service is overloaded: wait for Retry-After, then try again.';
      throw new ProblemError('temporarily_unavailable', { detail, retryAfterSeconds: 1 });
    },
  });
}
