// What a periodic job is, and the lease under which one replica at a time runs it. periodic-jobs.ts lists the jobs.
import type { Pool } from '../../store/postgres/pool.ts';
import { claimLease, releaseLease, renewLease } from '../../store/upkeep/sweeper-leases.ts';
import type { Log } from '../../telemetry/log.ts';
import type { RunResult } from '../loop.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';

export interface JobDeps {
  /** A pool for jobs alone: a statement may take up to a minute. */
  pool: Pool;
  metrics: SweeperMetrics;
  log: Log;
}

export interface Job {
  /** The key of the lease, and the label `sweep` of the metrics. */
  name: string;
  /** Time between two runs. Under a lease it counts from the end of the last complete run of any replica. */
  everyMs: number;
  /**
   * `one_replica`: under a lease. `every_replica`: for what each process shows in its own metrics, or what the replicas
   * share piece by piece.
   */
  runsOn: 'one_replica' | 'every_replica';
  /** One bounded step; `more` while there is more to do. */
  step: (deps: JobDeps) => Promise<RunResult>;
}

export interface LeaseHolder {
  /** Of this process. */
  owner: string;
  /** Ends the run after the step under way. */
  signal: AbortSignal;
}

/** Longer than a step may take. */
const LEASE_MS = 120_000;

/** Runs all steps of a job if it is due and no other replica holds its lease. */
export async function runUnderLease(
  { name, everyMs, step }: Omit<Job, 'runsOn'>,
  deps: JobDeps,
  { owner, signal }: LeaseHolder,
): Promise<RunResult> {
  const { pool } = deps;
  const lease = { name, owner, leaseMs: LEASE_MS };
  if (!(await claimLease(pool, { ...lease, everyMs }))) return 'idle';
  let isDone = false;
  try {
    while (!isDone && !signal.aborted && (await renewLease(pool, lease))) {
      isDone = (await step(deps)) === 'idle';
    }
  } finally {
    await releaseLease(pool, lease, isDone);
  }
  return 'idle';
}
