// Waiting for the first beat of a monitor.
import { optionalTime } from '../../domain/timestamp.ts';
import { type FirstBeatWatch, waitForFirstBeat } from '../../service/monitors/first-beat.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { Handlers } from '../operation.ts';
import { monitorNameOf } from './monitors.ts';

export function firstBeatHandlers(watchOf: (pool: Pool) => FirstBeatWatch): Handlers<'getFirstBeat'> {
  return {
    getFirstBeat: async (call) => {
      const hold = { waitSeconds: call.input.query.waitSeconds, signal: call.signal };
      const watch = watchOf(call.home.pool);
      const found = await waitForFirstBeat(call.db, watch, monitorNameOf(call), hold);
      if (found.firstBeatMs === undefined) return { body: { state: 'waiting' } };
      return {
        body: {
          state: 'accepted',
          firstBeatAt: optionalTime(found.firstBeatMs),
          nextDeadlineAt: optionalTime(found.nextDeadlineMs),
        },
      };
    },
  };
}
