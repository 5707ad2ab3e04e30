// The slow work of the house, each part under a lease: partitions, retention, restore windows.
import { randomUUID } from 'node:crypto';
import type { Pool } from '../../store/postgres/pool.ts';
import type { Log } from '../../telemetry/log.ts';
import type { RunResult } from '../loop.ts';
import { startSweepLoop } from '../sweep-loop.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';
import { LeasedJob } from './leased-job.ts';
import { sweepPartitions, watchDefaultPartitions } from './sweep-partitions.ts';
import { sweepRestoreWindows } from './sweep-restore-windows.ts';
import { sweepRetention } from './sweep-retention.ts';

export interface HousekeepingOptions {
  /** One of its own: its statements may take long. */
  pool: Pool;
  metrics: SweeperMetrics;
  log: Log;
}

const MINUTE_MS = 60_000;
/** How often a replica looks whether work is due and its lease free. */
const LEASE_POLL_MS = 20_000;

/** Begins at once; `stop` ends each job after the step under way. */
export function startHousekeeping({ pool, metrics, log }: HousekeepingOptions): { stop(): Promise<void> } {
  const jobs: { name: string; everyMs: number; step: () => Promise<RunResult> }[] = [
    { name: 'partitions', everyMs: 60 * MINUTE_MS, step: () => sweepPartitions(pool, metrics, log) },
    { name: 'retention', everyMs: 5 * MINUTE_MS, step: () => sweepRetention(pool, metrics) },
    { name: 'restore_windows', everyMs: MINUTE_MS, step: () => sweepRestoreWindows(pool, log) },
  ];
  const owner = randomUUID();
  const leased = jobs.map((job) => new LeasedJob({ pool, owner, ...job }));
  const shared = { maxBackoffMs: MINUTE_MS, metrics, log };
  const loops = leased.map((job) =>
    startSweepLoop({ ...shared, name: job.name, intervalMs: LEASE_POLL_MS, run: () => job.run() }),
  );
  loops.push(
    startSweepLoop({
      ...shared,
      name: 'default_partitions',
      intervalMs: MINUTE_MS,
      run: () => watchDefaultPartitions(pool, metrics, log),
    }),
  );
  return {
    async stop() {
      for (const job of leased) job.stop();
      await Promise.all(loops.map((loop) => loop.stop()));
    },
  };
}
