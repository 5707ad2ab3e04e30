// Writes outages of the service into the timelines of the incidents that were open (docs/contract/deadlines.md).
import { tellOutage } from '../../store/upkeep/outage-timelines.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

const PIECE = 1_000;

/** One piece. Replicas share the pieces: whoever comes first takes the next one. */
export async function tellOutages({ pool }: Pick<JobDeps, 'pool'>): Promise<RunResult> {
  return (await tellOutage(pool, PIECE)) ? 'more' : 'idle';
}
