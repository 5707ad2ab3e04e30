// Counts what projects use, by month (docs/contract/organization.md).
import { retireRateWindows } from '../../store/tenancy/rate-windows.ts';
import { countUsageStep } from '../../store/upkeep/usage-days.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

/** A project may have a million monitors: few projects in a transaction. */
const PROJECTS = 100;
/** After an absence of sweepers there are very many: one a minute of each project that calls. */
const WINDOWS = 10_000;

/** Some projects of the first day that is over and not counted. */
export async function countUsage({
  slowPool,
  findPlan,
}: Pick<JobDeps, 'slowPool' | 'findPlan'>): Promise<RunResult> {
  return (await countUsageStep(slowPool, { findPlan, limit: PROJECTS })) === 'worked' ? 'more' : 'idle';
}

/** Adds the calls of some minutes that are over, and deletes them. */
export async function countCalls({ pool, metrics }: Pick<JobDeps, 'pool' | 'metrics'>): Promise<RunResult> {
  const count = await retireRateWindows(pool, WINDOWS);
  if (count > 0) metrics.rowsRetired.inc({ what: 'rate_windows' }, count);
  return count > 0 ? 'more' : 'idle';
}
