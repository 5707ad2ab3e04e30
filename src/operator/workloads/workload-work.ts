// The work on workloads beside the passes of the Monitors: watches, reported runs, Monitors of annotated CronJobs.
import type { KubeMetrics } from '../../kube/kube-metrics.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import type { MonitorObject } from '../kinds/monitor/monitor-object.ts';
import type { ObjectCache } from '../known/object-cache.ts';
import type { OperatorContext } from '../operator-context.ts';
import { AnnotatedCronJobs } from './annotated-cron-jobs.ts';
import { CauseReporter } from './causes/cause-reporter.ts';
import { CauseWatches } from './causes/cause-watches.ts';
import { type LeftOut, OperatorSign } from './operator-sign.ts';
import { RunReporter } from './run-reporter.ts';
import type { WorkloadView } from './workload-view.ts';

export class WorkloadWork {
  readonly #context: OperatorContext;
  readonly #view: WorkloadView;
  readonly #reporter: RunReporter;
  readonly #annotated: AnnotatedCronJobs;
  readonly #causeWatches: CauseWatches;
  readonly #causes: CauseReporter;
  readonly #sign: OperatorSign;

  constructor(
    context: OperatorContext,
    view: WorkloadView,
    monitors: ObjectCache<MonitorObject>,
    metrics?: KubeMetrics,
  ) {
    this.#context = context;
    this.#view = view;
    this.#reporter = new RunReporter(context, view, monitors, metrics);
    this.#annotated = new AnnotatedCronJobs(context, view, monitors, metrics);
    const { api, kube, log, operatorName: name, watched } = context;
    this.#causeWatches = new CauseWatches({ kube, log, metrics, scopes: watched.scopes });
    this.#causes = new CauseReporter(context, { view, watches: this.#causeWatches, monitors });
    this.#sign = new OperatorSign({
      ...{ api, log, name },
      findBehind: () => this.#findBehind(),
      whenReady: () => this.#causes.whenTold(),
    });
  }

  /** Adds the watches to those of each namespace. */
  watch(metrics: KubeMetrics | undefined): void {
    const { kube, log, watched, settings } = this.#context;
    watched.watchAll((namespace) =>
      this.#view.caches.watches(namespace, {
        ...{ kube, log, metrics, tuning: settings.workloadWatch },
        setRefusal: (name, resource, refusal) => watched.setRefusal(name, resource, refusal),
      }),
    );
  }

  /** Fills the caches that nobody waits for: without them causes are not seen. */
  startCaches(): void {
    this.#causeWatches.start();
  }

  async stopCaches(): Promise<void> {
    await this.#causeWatches.stop();
  }

  start(): void {
    this.#reporter.start();
    this.#annotated.start();
    this.#causes.start();
    this.#sign.start();
  }

  async stop(graceMs: number): Promise<void> {
    const callers = [this.#sign.stop(), this.#causes.stop()];
    await Promise.all([...callers, this.#annotated.stop(graceMs), this.#reporter.stop(graceMs)]);
  }

  namespaceChanged(name: string, change: { object: KubeObject; previous?: KubeObject }): void {
    this.#annotated.namespaceChanged(name, change);
    this.#causes.namespaceChanged(name);
  }

  /** What of the Jobs of the cluster does not reach the operator now, or is not told yet. Throws ApiProblem. */
  async #findBehind(): Promise<readonly LeftOut[] | undefined> {
    const { watched, projects, settings } = this.#context;
    const { caches } = this.#view;
    const unsent = await this.#reporter.findBehind();
    const unseen = new Set([...caches.unseen, ...caches.watched.filter((name) => !watched.isWatched(name))]);
    if (unsent === undefined || (settings.isClusterWide && unseen.size > 0)) return undefined;
    const parts: LeftOut[] = [...unsent];
    for (const namespace of unseen) {
      // Where single namespaces are watched, the name of each is its project.
      const projectId = await projects.find(namespace);
      if (projectId !== undefined) parts.push({ projectId });
    }
    return parts;
  }
}
