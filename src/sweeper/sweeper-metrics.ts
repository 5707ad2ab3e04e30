// The metrics of the role `sweeper`. Names begin with beatkeeper_; docs/operations.md says what to watch.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export interface SweeperMetrics {
  sweepDuration: Histogram<'sweep'>;
  sweepFailures: Counter<'sweep'>;
  dueLag: Gauge;
  clockLag: Gauge;
  monitorsWoken: Counter;
  monitorFaults: Counter;
  incidentsOpened: Counter<'kind'>;
  detectionLateness: Histogram;
  deliveries: Counter<'outcome'>;
  deliveriesLost: Counter;
  attemptDuration: Histogram;
  deliveryLatency: Histogram;
  deliveriesInFlight: Gauge;
  defaultPartitionRows: Gauge<'table'>;
  rowsRetired: Counter<'what'>;
  sumsLag: Gauge;
  sealedValues: Gauge<'key_id' | 'kind' | 'configured'>;
}

/** Registers the metrics, all of them with the labels `more` as well. Call it once per registry. */
export function createSweeperMetrics(registry: Registry, more: readonly string[] = []): SweeperMetrics {
  const registers = [registry];
  const labels = <Name extends string>(...names: Name[]) => [...names, ...more] as Name[];
  return {
    sweepDuration: new Histogram({
      name: 'beatkeeper_sweep_duration_seconds',
      help: 'Time that one run of a sweep took.',
      labelNames: labels('sweep'),
      buckets: SECONDS,
      registers,
    }),
    sweepFailures: new Counter({
      name: 'beatkeeper_sweep_failures_total',
      help: 'Runs of a sweep that failed and were tried again.',
      labelNames: labels('sweep'),
      registers,
    }),
    dueLag: new Gauge({
      name: 'beatkeeper_sweep_due_lag_seconds',
      help: 'How long the earliest monitor of the last run had been due; 0 when none was.',
      labelNames: labels<never>(),
      registers,
    }),
    clockLag: new Gauge({
      name: 'beatkeeper_service_clock_lag_seconds',
      help: 'How far the api that is furthest behind has decided its beats; deadlines after that moment wait.',
      labelNames: labels<never>(),
      registers,
    }),
    monitorsWoken: new Counter({
      name: 'beatkeeper_monitors_woken_total',
      help: 'Due monitors that a sweep of deadlines has woken.',
      labelNames: labels<never>(),
      registers,
    }),
    monitorFaults: new Counter({
      name: 'beatkeeper_monitor_faults_total',
      help: 'Times that a sweep could not wake a monitor; it is tried again.',
      labelNames: labels<never>(),
      registers,
    }),
    incidentsOpened: new Counter({
      name: 'beatkeeper_incidents_opened_total',
      help: 'Incidents that a sweep of deadlines opened.',
      labelNames: labels('kind'),
      registers,
    }),
    detectionLateness: new Histogram({
      name: 'beatkeeper_detection_lateness_seconds',
      help: 'From a missed deadline to the commit of its incident.',
      labelNames: labels<never>(),
      buckets: [0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 5, 10, 30, 60, 300],
      registers,
    }),
    ...createDeliveryMetrics(registers, labels),
    defaultPartitionRows: new Gauge({
      name: 'beatkeeper_default_partition_rows',
      help: 'Rows without a partition of their own, counted up to 100000; expected to be 0.',
      labelNames: labels('table'),
      registers,
    }),
    rowsRetired: new Counter({
      name: 'beatkeeper_rows_retired_total',
      help: 'Rows that were deleted when their time was over, and partitions that were dropped.',
      labelNames: labels('what'),
      registers,
    }),
    sumsLag: new Gauge({
      name: 'beatkeeper_observation_sums_lag_seconds',
      help: 'How long the oldest day has been over whose observations are not summed up; they are not dropped before.',
      labelNames: labels<never>(),
      registers,
    }),
    sealedValues: new Gauge({
      name: 'beatkeeper_sealed_values',
      help: 'Values that are sealed with an encryption key, counted up to 10000; 0: the key can be removed.',
      labelNames: labels('key_id', 'kind', 'configured'),
      registers,
    }),
  };
}

type LabelNames = <Name extends string>(...names: Name[]) => Name[];

function createDeliveryMetrics(registers: Registry[], labels: LabelNames) {
  return {
    deliveries: new Counter({
      name: 'beatkeeper_deliveries_total',
      help: 'Attempts and cancellations of deliveries, by the resulting state; `postponed`: no attempt counted.',
      labelNames: labels('outcome'),
      registers,
    }),
    deliveriesLost: new Counter({
      name: 'beatkeeper_deliveries_lost_total',
      help: 'Deliveries of events that no attempt is left for, or whose receiver answered 410.',
      labelNames: labels<never>(),
      registers,
    }),
    attemptDuration: new Histogram({
      name: 'beatkeeper_delivery_attempt_duration_seconds',
      help: 'Time that attempts took, to the status line or to the failure.',
      labelNames: labels<never>(),
      buckets: SECONDS,
      registers,
    }),
    deliveryLatency: new Histogram({
      name: 'beatkeeper_delivery_latency_seconds',
      help: 'From the event to its delivery, for webhooks whose first attempt succeeded.',
      labelNames: labels<never>(),
      buckets: SECONDS,
      registers,
    }),
    deliveriesInFlight: new Gauge({
      name: 'beatkeeper_deliveries_in_flight',
      help: 'Attempts under way in this process.',
      labelNames: labels<never>(),
      registers,
    }),
  };
}
