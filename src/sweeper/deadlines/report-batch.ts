// What a batch of monitors tells when it is committed: metrics, faults, and those who send what it put into the outbox.
import type { Transition } from '../../domain/incident.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';
import type { MonitorFaults } from './monitor-faults.ts';
import type { WokenBatch } from './wake-due-monitors.ts';

export interface BatchListeners {
  metrics: SweeperMetrics;
  faults: MonitorFaults;
  /** Called after a commit that may have put something into the outbox. */
  onTransitions?: () => void;
}

/** `durationMs`: from before the batch began until after its commit. */
export function reportBatch(
  { metrics, faults, onTransitions }: BatchListeners,
  batch: WokenBatch,
  durationMs: number,
): void {
  metrics.monitorsWoken.inc(batch.claimed);
  for (const { error, ...place } of batch.faults)
    faults.record(place, error, 'A monitor could not be woken. It is tried again, and logged once an hour.');
  // The database's clock was read when the batch began.
  const committedMs = batch.nowMs + durationMs;
  for (const transition of batch.transitions) reportOpening(metrics, transition, committedMs);
  if (batch.transitions.length > 0) onTransitions?.();
}

function reportOpening(metrics: SweeperMetrics, { isNew, incident }: Transition, committedMs: number): void {
  if (!isNew) return;
  metrics.incidentsOpened.inc({ kind: incident.kind });
  if (incident.kind !== 'missed_deadline' || incident.deadlineMs === undefined) return;
  metrics.detectionLateness.observe(Math.max(0, committedMs - incident.deadlineMs) / 1000);
}
