// The loops between the default database and that of a jurisdiction (docs/adr/0013): they copy the directory there, and tell
// here what was found out there. Every replica runs them.
import { copyDirectory } from '../../store/directory/copy-directory.ts';
import { reportSlots } from '../../store/directory/reservations.ts';
import type { Place } from '../../store/postgres/databases.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { SecretBox } from '../../store/postgres/secret-box.ts';
import { type Loop, type SweepLoopOptions, startSweepLoop } from '../loop.ts';
import { reportEndpoints } from './report-endpoints.ts';

const COPIES_EVERY_MS = 1_000;
const REPORTS_EVERY_MS = 5_000;
/** While a database is away. */
const MAX_BACKOFF_MS = 10_000;

type LoopDeps = Pick<SweepLoopOptions, 'metrics' | 'log'>;

/** Claims the place and copies the directory from the default database `source` to it, until it is stopped. */
export function startDirectoryCopies(source: Pool, place: Place, deps: LoopDeps): Loop {
  const copy = async () => ((await copyDirectory(source, place)) === 'more' ? 'more' : 'idle');
  return startLoop('directory', COPIES_EVERY_MS, copy, deps);
}

/** Reports to the default database `source` until they are stopped: of endpoints, and of slots of plans. */
export function startReports(
  source: Pool,
  place: Place,
  { secrets, ...deps }: LoopDeps & { secrets: SecretBox },
): Loop[] {
  const endpoints = () => reportEndpoints(source, place, secrets);
  const slots = async () => {
    await reportSlots(source, place);
    return 'idle' as const;
  };
  return [
    startLoop('endpoint_reports', REPORTS_EVERY_MS, endpoints, deps),
    startLoop('slot_reports', REPORTS_EVERY_MS, slots, deps),
  ];
}

function startLoop(name: string, intervalMs: number, run: SweepLoopOptions['run'], deps: LoopDeps): Loop {
  return startSweepLoop({ ...deps, name, intervalMs, run, maxBackoffMs: MAX_BACKOFF_MS });
}
