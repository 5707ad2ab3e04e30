// Tells the default database how many monitors and endpoints organizations have in the database of a jurisdiction
// (docs/adr/0013). Every replica does.
import { reportSlots } from '../../store/directory/reservations.ts';
import type { Place } from '../../store/postgres/databases.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import { type Loop, type SweepLoopOptions, startSweepLoop } from '../loop.ts';

const EVERY_MS = 5_000;
/** While a database is away. */
const MAX_BACKOFF_MS = 10_000;

/** Reports to the default database `source` until it is stopped. */
export function startSlotReports(
  source: Pool,
  place: Place,
  { metrics, log }: Pick<SweepLoopOptions, 'metrics' | 'log'>,
): Loop {
  return startSweepLoop({
    name: 'slot_reports',
    intervalMs: EVERY_MS,
    maxBackoffMs: MAX_BACKOFF_MS,
    run: async () => {
      await reportSlots(source, place);
      return 'idle';
    },
    metrics,
    log,
  });
}
