// Sums up observations by hours, for the series of times whose observations are dropped.
import { readSummedUntil } from '../../store/beats/observation-sums.ts';
import { sumUpStep } from '../../store/upkeep/observation-hours.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

const DAY_SECONDS = 86_400;

/** One bounded transaction. */
export async function sumUpObservations({ pool }: Pick<JobDeps, 'pool'>): Promise<RunResult> {
  return (await sumUpStep(pool)) === 'worked' ? 'more' : 'idle';
}

/** Every replica measures it itself, as one that holds no lease would show an old number. */
export async function watchSums({ pool, metrics }: Pick<JobDeps, 'pool' | 'metrics'>): Promise<RunResult> {
  const { nowMs, summedMs } = await readSummedUntil(pool);
  metrics.sumsLag.set(Math.max(0, (nowMs - summedMs) / 1000 - DAY_SECONDS));
  return 'idle';
}
