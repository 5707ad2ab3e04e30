// Reports the runs of the Jobs of each Monitor that refers to a workload: asks runs-of.ts which beats are missing, sends them in
// order, and remembers them for the status. One worker for each Monitor, so a start goes before its end.
import { MAX_BEHIND } from '../../contract/resources/operator.ts';
import { Controller } from '../../kube/controller.ts';
import type { KubeMetrics } from '../../kube/kube-metrics.ts';
import { namespaceOfKey, objectKey } from '../../kube/kube-object.ts';
import { MONITOR_IDENTITY, type MonitorObject } from '../kinds/monitor/monitor-object.ts';
import type { ObjectCache } from '../known/object-cache.ts';
import { findProjectName } from '../known/project-directory.ts';
import type { OperatorContext } from '../operator-context.ts';
import { idOf, isOwnId } from '../pass/identity.ts';
import { ObjectEvents } from '../pass/object-events.ts';
import { otherReleaseOf } from '../pass/release.ts';
import type { LeftOut } from './operator-sign.ts';
import { type BeatTarget, RunSender } from './run-sender.ts';
import { type RunPlan, runsOf } from './runs-of.ts';
import { runsKeyOf } from './workload-of.ts';
import type { WorkloadView } from './workload-view.ts';

type BeatTargetRef = Pick<BeatTarget, 'projectId' | 'monitorId'>;

interface Next {
  requeueAfterMs: number;
  /** There is more to tell by then. */
  isBehind?: true;
}

/** A plan, and the Jobs that it is about. */
type KnownPlan = RunPlan & { views: Parameters<typeof runsOf>[0]['jobs'] };

/** A Monitor whose change waits for longer is named in the signs: a queue that works is faster. */
const BEHIND_MS = 1000;
/** How long after a change the log of a failed container is waited for, in all. */
const LOG_MS = 5000;
/** When a Monitor is looked at again whose namespace is not listed whole yet. */
const UNLISTED_MS = 1000;
/** When one is looked at again that has no monitor, if nothing changes. */
const HOMELESS_MS = 10_000;

export class RunReporter {
  readonly #context: OperatorContext;
  readonly #view: WorkloadView;
  readonly #monitors: ObjectCache<MonitorObject>;
  readonly #controller: Controller;
  readonly #sender: RunSender;
  readonly #events: ObjectEvents;
  /** Since when a Monitor may have beats that are not sent, ms of the process's clock. */
  readonly #pending = new Map<string, number>();
  /** Those of them whose beat was not taken. */
  readonly #failing = new Map<string, number>();
  /** The same of those that are looked at now. */
  readonly #working = new Map<string, number>();
  #startedAtMs = 0;
  #isWorking: boolean = false;

  /** The cache has the index `workload`. */
  constructor(
    context: OperatorContext,
    view: WorkloadView,
    monitors: ObjectCache<MonitorObject>,
    metrics?: KubeMetrics,
  ) {
    this.#context = context;
    this.#view = view;
    this.#monitors = monitors;
    this.#sender = new RunSender(context);
    this.#events = new ObjectEvents(context, {});
    this.#controller = new Controller({
      name: 'workload',
      reconcile: (key, { signal }) => this.#report(key, signal),
      concurrency: 8,
      metrics,
      log: context.log,
    });
    view.caches.setWanted((key) => monitors.listBy('workload', key).length > 0);
    view.caches.subscribe((keys) => {
      for (const key of keys) for (const monitor of monitors.listBy('workload', key)) this.#enqueue(monitor);
    });
    monitors.subscribe(({ object, type }) => {
      if (type === 'deleted') this.#forget(object);
      else if (runsKeyOf(object) !== undefined || object.status?.workload !== undefined)
        this.#enqueue(object);
    });
    context.watched.onRecovered((namespace) => {
      for (const monitor of monitors.listInNamespace(namespace)) this.#enqueue(monitor);
    });
  }

  start(): void {
    this.#isWorking = true;
    this.#view.caches.lead();
    for (const monitor of this.#monitors.values()) {
      if (runsKeyOf(monitor) !== undefined || monitor.status?.workload !== undefined) this.#enqueue(monitor);
    }
    this.#startedAtMs = performance.now();
    this.#controller.start();
  }

  async stop(graceMs: number): Promise<void> {
    await this.#controller.stop(graceMs);
  }

  /**
   * The Monitors whose Jobs have changed, and whose beats are not all sent; first of all those of which nobody has looked yet at
   * what came while nobody led. Undefined: nothing is reported, or there is nobody to report for.
   */
  async findBehind(): Promise<LeftOut[] | undefined> {
    if (!this.#isWorking || !this.#monitors.hasAny('workload')) return undefined;
    const nowMs = performance.now();
    const late = new Set<string>();
    for (const waiting of [this.#pending, this.#working, this.#failing])
      for (const [key, sinceMs] of waiting)
        if (sinceMs <= this.#startedAtMs || nowMs - sinceMs > BEHIND_MS) late.add(key);
    // Of very many, whole projects are left out: those with the most of them.
    const { projectIds, keys } =
      late.size > MAX_BEHIND ? this.#foldLate(late) : { projectIds: [], keys: late };
    const found: LeftOut[] = projectIds.map((projectId) => ({ projectId }));
    for (const key of keys) {
      const monitor = this.#monitors.get(key);
      const target = monitor === undefined ? undefined : await this.#targetOf(monitor);
      if (target !== undefined) found.push(target);
    }
    return found;
  }

  /** Nothing is asked about each. */
  #foldLate(late: ReadonlySet<string>): { projectIds: string[]; keys: string[] } {
    const projectOf = (key: string): string | undefined => {
      const monitor = this.#monitors.get(key);
      const name = monitor && findProjectName(this.#context, monitor);
      return name === undefined ? undefined : this.#context.projects.knownId(name);
    };
    // What is in no project has no monitor that could be judged.
    const groups = [...Map.groupBy(late, projectOf)].flatMap(([projectId, keys]) =>
      projectId === undefined ? [] : [{ projectId, keys }],
    );
    groups.sort((one, other) => other.keys.length - one.keys.length);
    let left = groups.reduce((sum, { keys }) => sum + keys.length, 0);
    const projectIds: string[] = [];
    for (const { projectId, keys } of groups) {
      if (projectIds.length + left <= MAX_BEHIND) break;
      projectIds.push(projectId);
      left -= keys.length;
    }
    return { projectIds, keys: groups.slice(projectIds.length).flatMap(({ keys }) => keys) };
  }

  #enqueue(monitor: MonitorObject): void {
    if (!this.#isWorking) return;
    const key = objectKey(monitor);
    if (!this.#pending.has(key)) this.#pending.set(key, performance.now());
    this.#controller.enqueue(key);
  }

  #forget(monitor: MonitorObject): void {
    this.#view.reports.forget(monitor);
    this.#sender.forget(monitor);
    this.#pending.delete(objectKey(monitor));
    this.#failing.delete(objectKey(monitor));
  }

  /** A change that comes meanwhile waits by itself. */
  async #report(key: string, signal: AbortSignal): Promise<Next | undefined> {
    const sinceMs = this.#failing.get(key) ?? this.#pending.get(key) ?? performance.now();
    this.#pending.delete(key);
    this.#failing.delete(key);
    this.#working.set(key, sinceMs);
    try {
      const next = await this.#reconcile(key, { signal, logUntilMs: sinceMs + LOG_MS });
      // What is known and not told yet waits.
      if (next?.isBehind && !this.#pending.has(key)) this.#pending.set(key, sinceMs);
      return next;
    } catch (error) {
      this.#failing.set(key, sinceMs);
      throw error;
    } finally {
      this.#working.delete(key);
    }
  }

  async #reconcile(
    key: string,
    limits: Pick<BeatTarget, 'signal' | 'logUntilMs'>,
  ): Promise<Next | undefined> {
    const { watched, settings } = this.#context;
    const namespace = namespaceOfKey(key);
    if (watched.isDegraded(namespace)) return undefined;
    if (!watched.isWatched(namespace)) return { requeueAfterMs: UNLISTED_MS };
    const monitor = this.#monitors.get(key);
    // A Monitor that is being deleted takes its monitor along: nothing is to open there any more.
    const isLeft = monitor === undefined || monitor.metadata.deletionTimestamp !== undefined;
    if (isLeft || otherReleaseOf(monitor, settings.release) !== undefined) return undefined;
    const plan = this.#planOf(monitor);
    const target = plan.steps.length === 0 ? undefined : await this.#targetOf(monitor);
    if (plan.steps.length > 0 && target === undefined) {
      // The API refuses it, or its pass is to come and wakes this one.
      return { requeueAfterMs: HOMELESS_MS };
    }
    if (target !== undefined) await this.#send(plan, { ...target, ...limits, monitor });
    this.#settle(monitor, plan);
    return plan.dueInMs === undefined ? undefined : { requeueAfterMs: plan.dueInMs, isBehind: true };
  }

  #planOf(monitor: MonitorObject): KnownPlan {
    const { caches, reports } = this.#view;
    const { namespace = '', uid = '' } = monitor.metadata;
    const { reported } = reports.of(monitor);
    const { workloadRef } = monitor.spec;
    const workload = runsKeyOf(monitor);
    const cronJob = workloadRef?.kind === 'CronJob' ? caches.cronJob(namespace, workloadRef.name) : undefined;
    const open = (reported.runs ?? []).filter(({ ended }) => ended === undefined).map((run) => run.uid);
    // Without a workload, runs that are open still end.
    const isSame = reported.ref === undefined || reported.ref === workload;
    const known = isSame ? reported.uid : undefined;
    const owner = workload === undefined ? undefined : (cronJob?.metadata.uid ?? known);
    const views = caches.viewsOf({ namespace, owner, key: workload ?? '', jobUids: open }, uid);
    const namespaceLeaving = this.#context.namespaces.get(namespace)?.metadata.deletionTimestamp;
    const facts = { ref: workload ?? '', cronJob, jobs: views, reported, namespaceLeaving };
    return { ...runsOf({ ...facts, nowMs: Date.now() }), views };
  }

  async #send(plan: RunPlan, target: Parameters<RunSender['send']>[0]): Promise<void> {
    const { monitor } = target;
    const { reports } = this.#view;
    const report = reports.of(monitor);
    for (const { beat, after } of plan.steps) {
      // An archived monitor takes no beats, and misses none.
      const isArchived = monitor.status?.lifecycle === 'archived';
      const sent = isArchived ? { state: 'sent' as const } : await this.#sender.send(target, beat);
      report.reported = after;
      if (sent.state === 'refused')
        this.#events.record(monitor, 'Refused', `The API refused a beat: ${sent.why}`);
      report.refusal = sent.state === 'refused' ? sent.why : undefined;
      reports.tell(objectKey(monitor), beat.body.status === 'start');
    }
  }

  #settle(monitor: MonitorObject, { final, views }: KnownPlan): void {
    const { caches, reports } = this.#view;
    reports.of(monitor).reported = final;
    const key = runsKeyOf(monitor) ?? '';
    const uids = this.#monitors.listBy('workload', key).map(({ metadata }) => metadata.uid ?? '');
    caches.settle(views, monitor.metadata.uid ?? '', uids);
  }

  /**
   * The monitor that a pass has given to the Monitor, or the one of its own UID: the status is no authority. Undefined: there
   * is none yet.
   */
  async #targetOf(monitor: MonitorObject): Promise<BeatTargetRef | undefined> {
    const { held } = this.#monitors.memoryOf(monitor);
    if (held !== undefined) return { projectId: held.projectId, monitorId: held.id };
    const monitorId = idOf(MONITOR_IDENTITY, monitor);
    const isMade = monitor.status?.monitorId === monitorId && isOwnId(MONITOR_IDENTITY, monitor, monitorId);
    const name = isMade ? findProjectName(this.#context, monitor) : undefined;
    const projectId = name === undefined ? undefined : await this.#context.projects.find(name);
    return projectId === undefined ? undefined : { projectId, monitorId };
  }
}
