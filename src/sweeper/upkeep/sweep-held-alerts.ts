// Wakes monitors with held or suppressed alerts that nothing else would wake in time (docs/contract/incidents.md, "Dependencies"):
// those whose cause has ended or is another one, and those whose wake a sweeper of the version before, or a suspension, has taken away.
import { wakeHeld } from '../../store/monitors/held-monitors.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

const WOKEN_AT_ONCE = 500;

export async function sweepHeldAlerts({ pool }: Pick<JobDeps, 'pool'>): Promise<RunResult> {
  const woken = await wakeHeld(pool, WOKEN_AT_ONCE);
  return woken === WOKEN_AT_ONCE ? 'more' : 'idle';
}
