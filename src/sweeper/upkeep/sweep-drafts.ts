// Closes drafts of rules whose time is over (docs/contract/rules.md). Reads show them as expired before.
import { expireDrafts } from '../../store/monitors/drafts.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

const BATCH = 1_000;

/** One bounded statement. */
export async function sweepDrafts({ pool }: Pick<JobDeps, 'pool'>): Promise<RunResult> {
  return (await expireDrafts(pool, BATCH)) >= BATCH ? 'more' : 'idle';
}
