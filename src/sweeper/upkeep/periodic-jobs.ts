// The periodic jobs of the sweeper, in one table.
import { randomUUID } from 'node:crypto';
import type { BillingSource } from '../../domain/billing.ts';
import { startSweepLoop } from '../loop.ts';
import { countCalls, countUsage } from './count-usage.ts';
import { type Job, type JobDeps, runUnderLease } from './job.ts';
import { createSums, watchSums } from './sum-up-observations.ts';
import { sweepCancellations } from './sweep-cancellations.ts';
import { sweepDrafts } from './sweep-drafts.ts';
import { sweepHeldAlerts } from './sweep-held-alerts.ts';
import { sweepLiveChanges } from './sweep-live-changes.ts';
import { createObservationSweep } from './sweep-observations.ts';
import { sweepPartitions, watchDefaultPartitions } from './sweep-partitions.ts';
import { sweepRestoreWindows } from './sweep-restore-windows.ts';
import { sweepRetention } from './sweep-retention.ts';
import { createSealedValuesSweep, watchSealedValues } from './sweep-sealed-values.ts';
import { sweepServiceStates } from './sweep-service-states.ts';
import { tellOutages } from './tell-outages.ts';

const MINUTE_MS = 60_000;
/** Somebody waits for it while a key is retired; otherwise there is nothing to seal. */
const SEALED_VALUES_MS = 20_000;

/** A monitor that depends on another one has at least two minutes after that has recovered. */
const HELD_ALERTS_MS = 20_000;

const SERVICE_STATES: Job = {
  name: 'service_states',
  everyMs: MINUTE_MS,
  runsOn: 'one_replica',
  step: sweepServiceStates,
};

/**
 * Every periodic job of the sweeper. CONTRIBUTING has the recipe for one more. A name stays for good: under another name
 * a job has another lease. A step that throws is logged, counted in `beatkeeper_sweep_failures_total` and tried again
 * within a minute. Where plans and states come from the values, no state ends by itself.
 */
export const listJobs = (billingSource: BillingSource): readonly Job[] => [
  { name: 'partitions', everyMs: 60 * MINUTE_MS, runsOn: 'one_replica', step: sweepPartitions },
  { name: 'retention', everyMs: 5 * MINUTE_MS, runsOn: 'one_replica', step: sweepRetention },
  { name: 'restore_windows', everyMs: MINUTE_MS, runsOn: 'one_replica', step: sweepRestoreWindows },
  { name: 'drafts', everyMs: 5 * MINUTE_MS, runsOn: 'one_replica', step: sweepDrafts },
  {
    name: 'sealed_values',
    everyMs: SEALED_VALUES_MS,
    runsOn: 'one_replica',
    step: createSealedValuesSweep(),
  },
  ...(billingSource === 'static' ? [] : [SERVICE_STATES]),
  { name: 'held_alerts', everyMs: HELD_ALERTS_MS, runsOn: 'one_replica', step: sweepHeldAlerts },
  { name: 'live_changes', everyMs: MINUTE_MS, runsOn: 'one_replica', step: sweepLiveChanges },
  { name: 'observation_sums', everyMs: 5 * MINUTE_MS, runsOn: 'one_replica', step: createSums() },
  {
    name: 'observations_of_plan',
    everyMs: 6 * 60 * MINUTE_MS,
    runsOn: 'one_replica',
    step: createObservationSweep(),
  },
  { name: 'usage', everyMs: 15 * MINUTE_MS, runsOn: 'one_replica', step: countUsage },
  { name: 'usage_calls', everyMs: MINUTE_MS, runsOn: 'one_replica', step: countCalls },
  { name: 'observation_sums_lag', everyMs: MINUTE_MS, runsOn: 'every_replica', step: watchSums },
  { name: 'default_partitions', everyMs: MINUTE_MS, runsOn: 'every_replica', step: watchDefaultPartitions },
  {
    name: 'sealed_values_count',
    everyMs: SEALED_VALUES_MS,
    runsOn: 'every_replica',
    step: watchSealedValues,
  },
  { name: 'cancellations', everyMs: 1_000, runsOn: 'every_replica', step: sweepCancellations },
  { name: 'outage_timelines', everyMs: 2_000, runsOn: 'every_replica', step: tellOutages },
];

/** How often a replica asks whether a job is due and its lease free. */
const LEASE_POLL_MS = 20_000;

/** Starts the jobs; `stop` ends each one after the step under way. */
export function startPeriodicJobs(jobs: readonly Job[], deps: JobDeps): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const holder = { owner: randomUUID(), signal: stopping.signal };
  const loops = jobs.map((job) => {
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
