// The periodic jobs of the sweeper, in one table.
import { randomUUID } from 'node:crypto';
import { startSweepLoop } from '../loop.ts';
import { type Job, type JobDeps, runUnderLease } from './job.ts';
import { sweepPartitions, watchDefaultPartitions } from './sweep-partitions.ts';
import { sweepRestoreWindows } from './sweep-restore-windows.ts';
import { sweepRetention } from './sweep-retention.ts';

const MINUTE_MS = 60_000;

/**
 * To add a periodic job:
 *
 * 1. Write its step in a file of this folder, with its statements in src/store. A step does a bounded piece of work,
 *    such as one batch of rows, within a minute, and returns `more` while there is more to do. It may fail anywhere and
 *    run again, and two replicas may overlap in it (when a step outlives its lease): neither may do harm.
 * 2. Add a row here. A name stays for good: under another name a job has another lease.
 * 3. Test the step on a real database, as test/sweeper/housekeeping.test.ts does.
 *
 * A step that throws is logged, counted in `beatkeeper_sweep_failures_total` and tried again, within a minute at most.
 * What is deleted after a time needs no job of its own: add a row to RETENTION_RULES in src/store/upkeep/retention.ts.
 */
const JOBS: readonly Job[] = [
  { name: 'partitions', everyMs: 60 * MINUTE_MS, runsOn: 'one_replica', step: sweepPartitions },
  { name: 'retention', everyMs: 5 * MINUTE_MS, runsOn: 'one_replica', step: sweepRetention },
  { name: 'restore_windows', everyMs: MINUTE_MS, runsOn: 'one_replica', step: sweepRestoreWindows },
  { name: 'default_partitions', everyMs: MINUTE_MS, runsOn: 'every_replica', step: watchDefaultPartitions },
];

/** How often a replica asks whether a job is due and its lease free. */
const LEASE_POLL_MS = 20_000;

/** Starts every job; `stop` ends each one after the step under way. */
export function startPeriodicJobs(deps: JobDeps): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const holder = { owner: randomUUID(), signal: stopping.signal };
  const loops = JOBS.map((job) => {
    const isLeased = job.runsOn === 'one_replica';
    return startSweepLoop({
      name: job.name,
      intervalMs: isLeased ? LEASE_POLL_MS : job.everyMs,
      maxBackoffMs: MINUTE_MS,
      run: () => (isLeased ? runUnderLease(job, deps, holder) : job.step(deps)),
      metrics: deps.metrics,
      log: deps.log,
    });
  });
  return {
    async stop() {
      stopping.abort();
      await Promise.all(loops.map((loop) => loop.stop()));
    },
  };
}
