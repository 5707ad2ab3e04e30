// What a periodic job is, and the lease under which one replica at a time runs it. periodic-jobs.ts lists the jobs.
import type { FindPlan } from '../../domain/plan.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { SecretBox } from '../../store/postgres/secret-box.ts';
import { claimLease, releaseLease, renewLease } from '../../store/upkeep/sweeper-leases.ts';
import type { Log } from '../../telemetry/log.ts';
import type { RunResult } from '../loop.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';

export interface JobDeps {
  /** A pool for jobs alone: a statement may take up to a minute. */
  pool: Pool;
  /** For statements that read a whole partition: they may take hours, on a slow disk. job-pools.ts counts its jobs. */
  slowPool: Pool;
  secrets: SecretBox;
  findPlan: FindPlan;
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
  /** How long the lease of a process that dies lasts. It is renewed meanwhile: a step may take longer. */
  leaseMs?: number;
}

const LEASE_MS = 120_000;
/** Renewals within the time of a lease, so that some may fail. */
const RENEWALS = 4;

/** Runs all steps of a job if it is due and no other replica holds its lease. */
export async function runUnderLease(
  { name, everyMs, step }: Omit<Job, 'runsOn'>,
  deps: JobDeps,
  { owner, signal, leaseMs = LEASE_MS }: LeaseHolder,
): Promise<RunResult> {
  const { pool } = deps;
  const lease = { name, owner, leaseMs };
  if (!(await claimLease(pool, { ...lease, everyMs }))) return 'idle';
  let isDone = false;
  try {
    while (!isDone && !signal.aborted && (await renewLease(pool, lease))) {
      isDone = (await whileRenewing(pool, lease, () => step(deps))) === 'idle';
    }
  } finally {
    await releaseLease(pool, lease, isDone);
  }
  return 'idle';
}

/** Resolves when no renewal is under way: one that came after the release would keep the lease. */
async function whileRenewing<Result>(
  pool: Pool,
  lease: Parameters<typeof renewLease>[1],
  work: () => Promise<Result>,
): Promise<Result> {
  let renewal: Promise<unknown> | undefined;
  const renew = () => {
    renewal ??= renewLease(pool, lease)
      .catch(() => undefined)
      .finally(() => {
        renewal = undefined;
      });
  };
  const timer = setInterval(renew, lease.leaseMs / RENEWALS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    await renewal;
  }
}
