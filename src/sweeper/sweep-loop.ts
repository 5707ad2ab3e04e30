// A loop whose rounds show in the metrics and whose failures show in the log.
import type { Log } from '../telemetry/log.ts';
import { Loop, type RunResult } from './loop.ts';
import type { SweeperMetrics } from './sweeper-metrics.ts';

export interface SweepLoopOptions {
  /** The label `sweep` of the metrics. */
  name: string;
  intervalMs: number;
  maxBackoffMs?: number;
  run: () => Promise<RunResult>;
  metrics: SweeperMetrics;
  log: Log;
}

/** Begins at once. */
export function startSweepLoop({ name, metrics, log, ...loop }: SweepLoopOptions): Loop {
  return new Loop({
    ...loop,
    onRun: ({ durationMs, outcome }) => {
      metrics.sweepDuration.observe({ sweep: name }, durationMs / 1000);
      if (outcome === 'failed') metrics.sweepFailures.inc({ sweep: name });
    },
    onError: (err) => log.warn({ err, sweep: name }, 'A sweep failed, and will be tried again.'),
  });
}
