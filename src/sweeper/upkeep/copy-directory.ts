// Copies the directory to the database of a jurisdiction, about once a second (docs/adr/0013). Every replica does.

import { copyDirectory } from '../../store/directory/copy-directory.ts';
import type { Place } from '../../store/postgres/databases.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import { type Loop, type SweepLoopOptions, startSweepLoop } from '../loop.ts';

const EVERY_MS = 1_000;
/** While a database is away. */
const MAX_BACKOFF_MS = 10_000;

/** Copies from the default database `source` until it is stopped. */
export function startDirectoryCopies(
  source: Pool,
  place: Place,
  { metrics, log }: Pick<SweepLoopOptions, 'metrics' | 'log'>,
): Loop {
  return startSweepLoop({
    name: 'directory',
    intervalMs: EVERY_MS,
    maxBackoffMs: MAX_BACKOFF_MS,
    run: async () => ((await copyDirectory(source, place)) === 'more' ? 'more' : 'idle'),
    metrics,
    log,
  });
}
