// What the role `sweeper` shows of its work. Names begin with beatkeeper_; docs/operations.md says what to watch.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export interface SweeperMetrics {
  sweepDuration: Histogram<'sweep'>;
  sweepFailures: Counter<'sweep'>;
  dueLag: Gauge;
  clockLag: Gauge;
  monitorsWoken: Counter;
  incidentsOpened: Counter<'kind'>;
  detectionLateness: Histogram;
  deliveries: Counter<'outcome'>;
  attemptDuration: Histogram;
  deliveryLatency: Histogram;
  deliveriesInFlight: Gauge;
  defaultPartitionRows: Gauge<'table'>;
  rowsRetired: Counter<'what'>;
}

/** Registers the metrics; once a registry. */
export function createSweeperMetrics(registry: Registry): SweeperMetrics {
  const registers = [registry];
  return {
    sweepDuration: new Histogram({
      name: 'beatkeeper_sweep_duration_seconds',
      help: 'Time that one round of a sweep took.',
      labelNames: ['sweep'],
      buckets: SECONDS,
      registers,
    }),
    sweepFailures: new Counter({
      name: 'beatkeeper_sweep_failures_total',
      help: 'Rounds of a sweep that failed, and were tried again.',
      labelNames: ['sweep'],
      registers,
    }),
    dueLag: new Gauge({
      name: 'beatkeeper_sweep_due_lag_seconds',
      help: 'How long the earliest monitor of the last round had been due; 0 when none was.',
      registers,
    }),
    clockLag: new Gauge({
      name: 'beatkeeper_service_clock_lag_seconds',
      help: 'Time since an api last said that it accepts beats; deadlines after that moment wait.',
      registers,
    }),
    monitorsWoken: new Counter({
      name: 'beatkeeper_monitors_woken_total',
      help: 'Monitors looked at because their moment had come.',
      registers,
    }),
    incidentsOpened: new Counter({
      name: 'beatkeeper_incidents_opened_total',
      help: 'Incidents opened by the passing of time.',
      labelNames: ['kind'],
      registers,
    }),
    detectionLateness: new Histogram({
      name: 'beatkeeper_detection_lateness_seconds',
      help: 'From a missed deadline to the commit of its incident.',
      buckets: [0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 5, 10, 30, 60, 300],
      registers,
    }),
    ...createDeliveryMetrics(registers),
    defaultPartitionRows: new Gauge({
      name: 'beatkeeper_default_partition_rows',
      help: 'Rows without a partition of their own, counted to 100000: anything above 0 needs a look.',
      labelNames: ['table'],
      registers,
    }),
    rowsRetired: new Counter({
      name: 'beatkeeper_rows_retired_total',
      help: 'Rows that were deleted because their time was over, and partitions that were dropped.',
      labelNames: ['what'],
      registers,
    }),
  };
}

function createDeliveryMetrics(registers: Registry[]) {
  return {
    deliveries: new Counter({
      name: 'beatkeeper_deliveries_total',
      help: 'Attempts and cancellations of deliveries by the state that they led to.',
      labelNames: ['outcome'],
      registers,
    }),
    attemptDuration: new Histogram({
      name: 'beatkeeper_delivery_attempt_duration_seconds',
      help: 'Time that attempts took, to the status line or to the failure.',
      buckets: SECONDS,
      registers,
    }),
    deliveryLatency: new Histogram({
      name: 'beatkeeper_delivery_latency_seconds',
      help: 'From the event to its delivery, of those that the first attempt delivered.',
      buckets: SECONDS,
      registers,
    }),
    deliveriesInFlight: new Gauge({
      name: 'beatkeeper_deliveries_in_flight',
      help: 'Attempts under way in this process.',
      registers,
    }),
  };
}
