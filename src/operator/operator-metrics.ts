// The operator's own metrics, beside those of src/kube, on the given registry.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { CUSTOM_RESOURCES } from '../contract/crd/custom-resources.ts';
import { STALLED_REASONS } from './stalled-objects.ts';

export interface OperatorMetrics {
  readonly apiRequests: Counter<'operation' | 'code'>;
  readonly apiSeconds: Histogram<'operation'>;
  readonly statusWrites: Counter<'kind'>;
  readonly drifts: Counter<'kind'>;
  readonly stalled: Gauge<'kind' | 'reason'>;
  readonly otherReleases: Gauge<'kind'>;
  /** 1 while a namespace of `operator.watchNamespaces` cannot be read. */
  readonly degradedNamespaces: Gauge<'namespace'>;
  readonly monitorsOrphaned: Gauge;
  readonly callbacksOrphaned: Gauge;
  readonly feedItems: Counter;
  readonly feedFailures: Counter;
  /** 1 while the status feed answers. */
  readonly feedUp: Gauge;
}

/** Creates and registers the metrics: once per registry. */
export function createOperatorMetrics(registry: Registry): OperatorMetrics {
  const metrics = makeMetrics([registry]);
  // Every series exists from the start, so that `increase` counts its first event.
  for (const kind of Object.keys(CUSTOM_RESOURCES)) {
    metrics.statusWrites.inc({ kind }, 0);
    metrics.drifts.inc({ kind }, 0);
    for (const reason of STALLED_REASONS) metrics.stalled.set({ kind, reason }, 0);
    metrics.otherReleases.set({ kind }, 0);
  }
  return metrics;
}

function makeMetrics(registers: Registry[]): OperatorMetrics {
  const prefix = 'beatkeeper_operator';
  return {
    apiRequests: new Counter({
      name: `${prefix}_api_requests_total`,
      help: 'Calls to /v1 by operation and status; "none", "timeout", "unreachable" or "not_sent" without an answer.',
      labelNames: ['operation', 'code'],
      registers,
    }),
    apiSeconds: new Histogram({
      name: `${prefix}_api_request_duration_seconds`,
      help: 'Time of those calls.',
      labelNames: ['operation'],
      buckets: [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    statusWrites: new Counter({
      name: `${prefix}_status_writes_total`,
      help: 'Statuses written.',
      labelNames: ['kind'],
      registers,
    }),
    drifts: new Counter({
      name: `${prefix}_drifts_total`,
      help: 'Changes made through the API that were undone.',
      labelNames: ['kind'],
      registers,
    }),
    stalled: new Gauge({
      name: `${prefix}_stalled_objects`,
      help: 'Objects that only a person can help, by the reason in their conditions. Of the leader; 0 on the others.',
      labelNames: ['kind', 'reason'],
      registers,
    }),
    otherReleases: new Gauge({
      name: `${prefix}_objects_of_other_releases`,
      help: 'Objects that another release manages; this one leaves them alone.',
      labelNames: ['kind'],
      registers,
    }),
    degradedNamespaces: new Gauge({
      name: `${prefix}_degraded_namespaces`,
      help: '1 while a named namespace cannot be read, because it or a right is gone.',
      labelNames: ['namespace'],
      registers,
    }),
    monitorsOrphaned: new Gauge({
      name: 'beatkeeper_monitors_orphaned',
      help: 'Monitors at the API whose object is gone. Of the leader; 0 on the others.',
      registers,
    }),
    callbacksOrphaned: new Gauge({
      name: 'beatkeeper_callbacks_orphaned',
      help: 'Active endpoints at the API whose Callback is gone. Of the leader; 0 on the others.',
      registers,
    }),
    feedItems: new Counter({
      name: `${prefix}_feed_items_total`,
      help: 'Items of the status feed.',
      registers,
    }),
    feedFailures: new Counter({
      name: `${prefix}_feed_failures_total`,
      help: 'Calls of the status feed that failed.',
      registers,
    }),
    feedUp: new Gauge({ name: `${prefix}_feed_up`, help: '1 while the status feed answers.', registers }),
  };
}
