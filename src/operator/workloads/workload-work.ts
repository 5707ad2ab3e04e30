// The work on workloads beside the passes of the Monitors: watches, reported runs, Monitors of annotated CronJobs.
import type { KubeMetrics } from '../../kube/kube-metrics.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import type { MonitorObject } from '../kinds/monitor/monitor-object.ts';
import type { ObjectCache } from '../known/object-cache.ts';
import type { OperatorContext } from '../operator-context.ts';
import { RunReporter } from './run-reporter.ts';
import type { WorkloadView } from './workload-view.ts';

export class WorkloadWork {
  readonly #context: OperatorContext;
  readonly #view: WorkloadView;
  readonly #reporter: RunReporter;

  constructor(
    context: OperatorContext,
    view: WorkloadView,
    monitors: ObjectCache<MonitorObject>,
    metrics?: KubeMetrics,
  ) {
    this.#context = context;
    this.#view = view;
    this.#reporter = new RunReporter(context, view, monitors, metrics);
  }

  /** Adds the watches to those of each namespace. */
  watch(metrics: KubeMetrics | undefined): void {
    const { kube, log, watched } = this.#context;
    watched.watchAll((namespace) =>
      this.#view.caches.watches(namespace, {
        ...{ kube, log, metrics },
        setRefusal: (name, resource, refusal) => watched.setRefusal(name, resource, refusal),
      }),
    );
  }

  start(): void {
    this.#reporter.start();
  }

  async stop(graceMs: number): Promise<void> {
    await this.#reporter.stop(graceMs);
  }

  namespaceChanged(_name: string, _change: { object: KubeObject; previous: KubeObject | undefined }): void {
    return;
  }
}
