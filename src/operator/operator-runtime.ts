// The operator without its process: a worker for each kind, the cache of namespaces, the status feed. The leader works.
import { setTimeout as delay } from 'node:timers/promises';
import type { RestClient } from '../client/rest-client.ts';
import type { CustomKind } from '../contract/crd/custom-resources.ts';
import type { EventRecorder } from '../kube/event-recorder.ts';
import type { KubeClient } from '../kube/kube-client.ts';
import type { KubeLog } from '../kube/kube-log.ts';
import type { KubeMetrics } from '../kube/kube-metrics.ts';
import type { KubeObject, ObjectRef } from '../kube/kube-object.ts';
import { ObjectStore } from '../kube/object-store.ts';
import { Reflector } from '../kube/reflector.ts';
import { type AnyWorker, createWorkers } from './kinds/kinds.ts';
import { type FollowedMonitor, listFollowedMonitors } from './kinds/monitor/followed-monitors.ts';
import { maintenanceTextIn } from './kinds/monitor/maintenance-of-namespace.ts';
import { BindingDirectory } from './known/binding-directory.ts';
import { DestinationChecks } from './known/destination-checks.ts';
import { MonitorStatusCache } from './known/monitor-status-cache.ts';
import { ProjectDirectory, projectNameIn } from './known/project-directory.ts';
import { PublishBase } from './known/publish-base.ts';
import { type SharedProject, SharedProjects } from './known/shared-projects.ts';
import { SignIn } from './known/sign-in.ts';
import { StatusFeedFollower } from './known/status-feed-follower.ts';
import { type Watch, WatchedNamespaces } from './known/watched-namespaces.ts';
import type { OperatorContext, OperatorTuning } from './operator-context.ts';
import type { OperatorMetrics } from './operator-metrics.ts';
import { OrphanKeeper } from './orphans/orphan-keeper.ts';
import { NAMESPACES } from './resources/core-resources.ts';
import { OperatorName } from './workloads/operator-sign.ts';
import { newWorkloadView } from './workloads/workload-view.ts';
import { WorkloadWork } from './workloads/workload-work.ts';

export interface RuntimeOptions {
  kube: KubeClient;
  api: RestClient;
  events: Pick<EventRecorder, 'record'>;
  log: KubeLog;
  metrics: OperatorMetrics;
  kubeMetrics?: KubeMetrics;
  /** Empty: all. */
  watchNamespaces: readonly string[];
  /** Default, and with an empty list: every namespace may belong to every project. */
  sharedProjects?: readonly SharedProject[] | undefined;
  /** False: the operator looks at no CronJobs, Jobs and pods, and needs no rights there. */
  watchesWorkloads: boolean;
  /** Of the operator itself. */
  lease?: ObjectRef | undefined;
  tuning: Omit<OperatorTuning, 'isClusterWide'>;
}

/** How long to wait for the first listing of the feed: without it, each monitor would be read by itself. */
const FEED_PATIENCE_MS = 3000;

export class OperatorRuntime {
  readonly workers: Readonly<Record<CustomKind, AnyWorker>>;
  readonly signIn = new SignIn();
  readonly #context: OperatorContext;
  /** Of the namespaces themselves; undefined where single ones are named. */
  readonly #namespaces: Watch | undefined;
  readonly #orphans: OrphanKeeper;
  readonly #workloads: WorkloadWork | undefined;
  readonly #abort = new AbortController();
  #housekeeping: Promise<void> | undefined;
  /** A lease that is lost while `startWork` waits must start nothing. */
  #work: 'waiting' | 'started' | 'stopped' = 'waiting';

  constructor(options: RuntimeOptions) {
    const { api, log, metrics, kubeMetrics } = options;
    const onRecovered = (wasForbidden: boolean) => {
      for (const worker of this.#all) worker.apiRecovered(wasForbidden);
    };
    const publishBase = new PublishBase(() => {
      for (const worker of this.#all) worker.checkAll();
    });
    const { signIn } = this;
    const feed = new StatusFeedFollower({ api, metrics, log, signIn, publishBase, onRecovered });
    this.#context = createContext(options, { feed, publishBase });
    const { workers, monitorCache } = createWorkers(this.#context, kubeMetrics);
    this.workers = workers;
    const { watched, settings, workloads } = this.#context;
    for (const worker of this.#all) watched.watch((namespace) => worker.watch(namespace));
    if (workloads !== undefined) {
      this.#workloads = new WorkloadWork(this.#context, workloads, monitorCache, kubeMetrics);
      this.#workloads.watch(kubeMetrics);
    }
    watched.onRecovered((namespace) => {
      for (const worker of this.#all) worker.namespaceChanged(namespace);
    });
    if (settings.isClusterWide) this.#namespaces = this.#watchNamespaces(kubeMetrics);
    this.#orphans = new OrphanKeeper(this.#context, {
      Monitor: (key) => this.workers.Monitor.find(key),
      Callback: (key) => this.workers.Callback.find(key),
    });
  }

  /**
   * Fills the caches, then follows the feed. Resolves when the caches are full, but for those of degraded namespaces;
   * rejects after `stop`.
   */
  async startCaches(): Promise<void> {
    const { signal } = this.#abort;
    this.#namespaces?.start();
    this.#context.watched.start();
    this.#workloads?.startCaches();
    await Promise.all([this.#namespaces?.whenSynced(signal), this.#context.watched.whenSynced(signal)]);
    this.#context.feed.start();
  }

  /** Starts the work on the leader. Waits a moment for the feed, but not for an API that is away. */
  async startWork(): Promise<void> {
    const { signal } = this.#abort;
    const patience = delay(FEED_PATIENCE_MS, undefined, { signal }).catch(() => undefined);
    await Promise.race([this.#context.feed.whenSynced(), patience]);
    if (signal.aborted || this.#work === 'stopped') return;
    this.#work = 'started';
    for (const worker of this.#all) worker.start();
    this.#workloads?.start();
    this.#housekeeping ??= this.#runHousekeeping();
  }

  /** Starts no more passes and waits for the running ones, at most `graceMs`. */
  async stopWork(graceMs: number): Promise<void> {
    this.#work = 'stopped';
    const { destinationChecks } = this.#context;
    const parts = [...this.#all, ...(this.#workloads === undefined ? [] : [this.#workloads])];
    await Promise.all([destinationChecks.stop(), ...parts.map((part) => part.stop(graceMs))]);
  }

  /** Stops the caches and the feed; call it after `stopWork`. */
  async stop(): Promise<void> {
    this.#abort.abort(new Error('The operator ends.'));
    await this.#housekeeping;
    await this.#context.feed.stop();
    const { watched } = this.#context;
    await Promise.all([this.#namespaces?.stop(), watched.stop(), this.#workloads?.stopCaches()]);
  }

  /** True if the caches are full, but for those of degraded namespaces. */
  get hasSynced(): boolean {
    return this.#namespaces?.hasSynced !== false && this.#context.watched.hasSynced;
  }

  /** False if a watch receives nothing. */
  get isHearing(): boolean {
    return this.#namespaces?.isHearing !== false && this.#context.watched.isHearing;
  }

  /** True if the caches have all objects of the namespace. */
  isWatched(namespace: string): boolean {
    return this.#namespaces?.hasSynced !== false && this.#context.watched.isWatched(namespace);
  }

  /** The watched namespaces that cannot be read. */
  get degradedNamespaces(): string[] {
    return this.#context.watched.degraded;
  }

  /** The Monitors whose status is known; undefined while this process does not work. */
  get followedMonitors(): FollowedMonitor[] | undefined {
    if (this.#work !== 'started') return undefined;
    const { Monitor: worker } = this.workers;
    const { statusCache } = this.#context;
    const { objects } = worker;
    return listFollowedMonitors({ objects, statusCache, memoryOf: (object) => worker.memoryOf(object) });
  }

  get #all(): AnyWorker[] {
    return Object.values(this.workers);
  }

  /** Lists the whole feed at every resync: the feed does not report deleted monitors. */
  async #runHousekeeping(): Promise<void> {
    const { signal } = this.#abort;
    const { settings, bindings, feed, projects, log } = this.#context;
    while (!signal.aborted) {
      const pauseMs = settings.resyncMs * (0.85 + 0.3 * Math.random());
      await delay(pauseMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      bindings.sweep();
      for (const worker of this.#all) worker.measure();
      try {
        await projects.refresh();
        await feed.readAll(signal);
        await this.#orphans.settle(signal);
      } catch (error) {
        log.debug({ err: error }, 'Could not read the states of all monitors; the next resync tries again.');
      }
    }
  }

  /** A namespace belongs to a project, and may have maintenance for its Monitors: its annotations say so. */
  #watchNamespaces(metrics: KubeMetrics | undefined): Watch {
    const { kube: client, namespaces: store, log } = this.#context;
    return new Reflector<KubeObject>({
      ...{ client, resource: NAMESPACES, store, metrics, log },
      onChange: ({ type, object, previous }) => {
        const { name } = object.metadata;
        if (type !== 'updated' || projectNameIn(object) !== projectNameIn(previous))
          for (const worker of this.#all) worker.namespaceChanged(name);
        else if (maintenanceTextIn(object) !== maintenanceTextIn(previous))
          this.workers.Monitor.namespaceChanged(name);
        this.#workloads?.namespaceChanged(name, { object, previous });
      },
    });
  }
}

function createContext(
  options: RuntimeOptions,
  followed: Pick<OperatorContext, 'feed' | 'publishBase'>,
): OperatorContext {
  const { kube, api, events, log, metrics, watchNamespaces, tuning, lease } = options;
  const isClusterWide = watchNamespaces.length === 0;
  const { release } = tuning;
  return {
    ...{ kube, api, events, log, metrics, ...followed },
    namespaces: new ObjectStore<KubeObject>(),
    watched: new WatchedNamespaces({ names: watchNamespaces, metrics, log }),
    sharedProjects: new SharedProjects(options.sharedProjects),
    projects: new ProjectDirectory(api),
    bindings: new BindingDirectory(api),
    destinationChecks: new DestinationChecks({ api, log }),
    statusCache: new MonitorStatusCache(),
    operatorName: new OperatorName({ kube, release, isClusterWide, lease }),
    workloads: options.watchesWorkloads ? newWorkloadView(kube) : undefined,
    settings: { ...tuning, isClusterWide },
  };
}
