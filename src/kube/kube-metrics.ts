// The metrics of this folder, under the names that dashboards of controllers expect.

import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export interface KubeMetrics {
  readonly reconciles: Counter<'controller' | 'result'>;
  readonly reconcileErrors: Counter<'controller'>;
  readonly reconcileTimeouts: Counter<'controller'>;
  readonly reconcileSeconds: Histogram<'controller'>;
  readonly activeWorkers: Gauge<'controller'>;
  readonly maxConcurrent: Gauge<'controller'>;
  readonly queueAdds: Counter<'name' | 'controller'>;
  readonly queueRetries: Counter<'name' | 'controller'>;
  readonly queueSeconds: Histogram<'name' | 'controller'>;
  readonly workSeconds: Histogram<'name' | 'controller'>;
  /** Each scrape reads the depth and the work in progress of these queues. */
  readonly queues: Map<string, QueueGauges>;
  readonly requests: Counter<'method' | 'code'>;
  readonly requestSeconds: Histogram<'method'>;
  readonly lists: Counter<'resource'>;
  readonly watches: Counter<'resource' | 'end'>;
  readonly cached: Gauge<'resource'>;
  readonly events: Counter<'outcome'>;
  readonly leader: Gauge<'name'>;
}

/** What a scrape reads from one queue. */
export interface QueueGauges {
  depth(): number;
  /** For each key in work, how long a worker has had it. */
  workingSeconds(): number[];
}

const secondsBuckets = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Creates and registers the metrics of this folder. Call it once per registry. */
export function createKubeMetrics(registry: Registry): KubeMetrics {
  const registers = [registry];
  const queues = new Map<string, QueueGauges>();
  registerQueueGauges(registry, queues);
  const counter = <L extends string>(name: string, help: string, labelNames: L[]): Counter<L> =>
    new Counter({ name, help, labelNames, registers });
  const gauge = <L extends string>(name: string, help: string, labelNames: L[]): Gauge<L> =>
    new Gauge({ name, help, labelNames, registers });
  const histogram = <L extends string>(name: string, help: string, labelNames: L[]): Histogram<L> =>
    new Histogram({ name, help, labelNames, registers, buckets: secondsBuckets });
  const runtime = 'controller_runtime';
  const queueLabels: ('name' | 'controller')[] = ['name', 'controller'];
  return {
    queues,
    reconciles: counter(`${runtime}_reconcile_total`, 'Reconciles, by result.', ['controller', 'result']),
    reconcileErrors: counter(`${runtime}_reconcile_errors_total`, 'Failed reconciles.', ['controller']),
    reconcileTimeouts: counter(
      `${runtime}_reconcile_timeouts_total`,
      'Reconciles that exceeded their time limit.',
      ['controller'],
    ),
    reconcileSeconds: histogram(`${runtime}_reconcile_time_seconds`, 'Duration of a reconcile.', [
      'controller',
    ]),
    activeWorkers: gauge(`${runtime}_active_workers`, 'Reconciles in progress.', ['controller']),
    maxConcurrent: gauge(`${runtime}_max_concurrent_reconciles`, 'Limit of reconciles at once.', [
      'controller',
    ]),
    queueAdds: counter('workqueue_adds_total', 'Keys added.', queueLabels),
    queueRetries: counter('workqueue_retries_total', 'Keys added after a failure.', queueLabels),
    queueSeconds: histogram(
      'workqueue_queue_duration_seconds',
      'Time that a ready key waited for a worker.',
      queueLabels,
    ),
    workSeconds: histogram('workqueue_work_duration_seconds', 'Time that a worker had a key.', queueLabels),
    requests: counter('rest_client_requests_total', 'Calls to the Kubernetes API.', ['method', 'code']),
    requestSeconds: histogram(
      'rest_client_request_duration_seconds',
      'Duration of calls to the Kubernetes API.',
      ['method'],
    ),
    lists: counter('kube_reflector_lists_total', 'Complete lists.', ['resource']),
    watches: counter('kube_reflector_watches_total', 'Watches that ended, by how they ended.', [
      'resource',
      'end',
    ]),
    cached: gauge('kube_reflector_objects', 'Objects in the cache.', ['resource']),
    events: counter('kube_events_total', 'Events, by outcome.', ['outcome']),
    leader: gauge('leader_election_master_status', '1 on the leader.', ['name']),
  };
}

function registerQueueGauges(registry: Registry, queues: Map<string, QueueGauges>): void {
  const read = (name: string, help: string, value: (queue: QueueGauges) => number): void => {
    new Gauge({
      name,
      help,
      labelNames: ['name', 'controller'],
      registers: [registry],
      collect() {
        for (const [queue, gauges] of queues) this.set({ name: queue, controller: queue }, value(gauges));
      },
    });
  };
  read('workqueue_depth', 'Ready keys.', (queue) => queue.depth());
  read('workqueue_unfinished_work_seconds', 'Total time that workers have had their present keys.', (queue) =>
    queue.workingSeconds().reduce((sum, seconds) => sum + seconds, 0),
  );
  read(
    'workqueue_longest_running_processor_seconds',
    'Longest time that a worker has had its present key.',
    (queue) => Math.max(0, ...queue.workingSeconds()),
  );
}
