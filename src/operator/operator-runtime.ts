// The operator without its process: caches, feed, queues and reconcilers put together. Who leads starts the work.
import { setTimeout as delay } from 'node:timers/promises';
import type { RestClient } from '../client/rest-client.ts';
import { Controller, type Reconcile } from '../kube/controller.ts';
import type { EventRecorder } from '../kube/event-recorder.ts';
import type { KubeClient } from '../kube/kube-client.ts';
import type { KubeLog } from '../kube/kube-log.ts';
import type { KubeMetrics } from '../kube/kube-metrics.ts';
import { type KubeObject, type KubeResource, objectKey } from '../kube/kube-object.ts';
import { ObjectStore, type StoreChange } from '../kube/object-store.ts';
import { Reflector } from '../kube/reflector.ts';
import { ChangeRoutes, type Enqueue } from './change-routes.ts';
import { CALLBACKS, type CallbackObject, createCallbackStore } from './kinds/callback/callback-object.ts';
import { CallbackReconciler } from './kinds/callback/callback-reconciler.ts';
import { createMonitorStore, MONITORS, type MonitorObject } from './kinds/monitor/monitor-object.ts';
import { MonitorReconciler } from './kinds/monitor/monitor-reconciler.ts';
import { BindingDirectory } from './known/binding-directory.ts';
import { MonitorStatusCache } from './known/monitor-status-cache.ts';
import { ObjectMemories } from './known/object-memory.ts';
import { ProjectDirectory } from './known/project-directory.ts';
import { listStatusFeed, StatusFeedFollower } from './known/status-feed-follower.ts';
import type { OperatorContext, OperatorTuning } from './operator-context.ts';
import type { OperatorMetrics } from './operator-metrics.ts';
import { reconcilerOf } from './pass/reconcile-object.ts';
import { NAMESPACES } from './resources/core-resources.ts';

export interface RuntimeOptions {
  kube: KubeClient;
  api: RestClient;
  events: Pick<EventRecorder, 'record'>;
  log: KubeLog;
  metrics: OperatorMetrics;
  kubeMetrics?: KubeMetrics;
  /** Empty: all. */
  watchNamespaces: readonly string[];
  tuning: Omit<OperatorTuning, 'isClusterWide'>;
}

type Cache = Pick<Reflector<KubeObject>, 'start' | 'stop' | 'whenSynced' | 'hasSynced' | 'isHearing'>;

/** How long the first reading of the feed is waited for: without it each monitor would be read by itself. */
const FEED_PATIENCE_MS = 3000;
const CONCURRENCY = { monitor: 8, callback: 4 };

export class OperatorRuntime {
  readonly context: OperatorContext;
  readonly #options: RuntimeOptions;
  readonly #reflectors: Cache[] = [];
  readonly #controllers: { monitor: Controller; callback: Controller };
  readonly #routes: ChangeRoutes;
  readonly #feed: StatusFeedFollower;
  readonly #abort = new AbortController();
  #isWorking: boolean = false;
  #housekeeping: Promise<void> | undefined;

  constructor(options: RuntimeOptions) {
    this.#options = options;
    this.context = createContext(options);
    const { kubeMetrics: metrics, log } = options;
    const controller = (name: 'monitor' | 'callback', reconcile: Reconcile) =>
      new Controller({ name, reconcile, concurrency: CONCURRENCY[name], metrics, log });
    const { context } = this;
    this.#controllers = {
      monitor: controller('monitor', reconcilerOf(context, new MonitorReconciler(context))),
      callback: controller('callback', reconcilerOf(context, new CallbackReconciler(context))),
    };
    // Who stands by keeps no queue: keys of objects that come and go would heap up in it for weeks.
    const enqueueTo =
      (name: 'monitor' | 'callback'): Enqueue =>
      (key) => {
        if (this.#isWorking) this.#controllers[name].enqueue(key);
      };
    this.#routes = new ChangeRoutes(context, {
      monitor: enqueueTo('monitor'),
      callback: enqueueTo('callback'),
    });
    this.#feed = new StatusFeedFollower({
      api: options.api,
      onItem: (item, atMs) => this.#routes.followed(item, atMs),
      onRecovered: (wasForbidden) => this.#routes.apiRecovered(wasForbidden),
      metrics: options.metrics,
      log,
    });
    this.#watchAll();
  }

  /** Fills the caches, then follows the feed. Resolves when the caches are full; rejects after `stop`. */
  async startCaches(): Promise<void> {
    for (const reflector of this.#reflectors) reflector.start();
    await Promise.all(this.#reflectors.map((reflector) => reflector.whenSynced(this.#abort.signal)));
    this.#feed.start();
  }

  /** Starts the work, on the leader. Waits a moment for the feed, not for an API that is away. */
  async startWork(): Promise<void> {
    const { signal } = this.#abort;
    const patience = delay(FEED_PATIENCE_MS, undefined, { signal }).catch(() => undefined);
    await Promise.race([this.#feed.whenSynced(), patience]);
    if (signal.aborted) return;
    this.#isWorking = true;
    enqueueAll(this.#controllers.callback, this.context.callbacks.values());
    enqueueAll(this.#controllers.monitor, this.context.monitors.values());
    this.#controllers.callback.start();
    this.#controllers.monitor.start();
    this.#housekeeping ??= this.#keepHouse();
  }

  /** Takes nothing new and waits for what is under way, at most `graceMs`. */
  async stopWork(graceMs: number): Promise<void> {
    await Promise.all(Object.values(this.#controllers).map((controller) => controller.stop(graceMs)));
  }

  /** Ends caches and feed; call it after `stopWork`. */
  async stop(): Promise<void> {
    this.#abort.abort(new Error('The operator ends.'));
    await this.#housekeeping;
    await this.#feed.stop();
    await Promise.all(this.#reflectors.map((reflector) => reflector.stop()));
  }

  get hasSynced(): boolean {
    return this.#reflectors.every(({ hasSynced }) => hasSynced);
  }

  /** False when a watch is deaf. */
  get isHearing(): boolean {
    return this.#reflectors.every(({ isHearing }) => isHearing);
  }

  /** Reads everything again now and then: what was deleted elsewhere is in no feed. */
  async #keepHouse(): Promise<void> {
    const { signal } = this.#abort;
    const { settings, bindings, metrics, api, monitorMemories, callbackMemories } = this.context;
    while (!signal.aborted) {
      await delay(settings.resyncMs * (0.85 + 0.3 * Math.random()), undefined, { signal }).catch(
        () => undefined,
      );
      if (signal.aborted) return;
      bindings.sweep();
      metrics.refused.set({ kind: 'Monitor' }, monitorMemories.refused);
      metrics.refused.set({ kind: 'Callback' }, callbackMemories.refused);
      try {
        const startedAtMs = performance.now();
        const listed = new Set<string>();
        await listStatusFeed(
          api,
          (item, atMs) => {
            listed.add(`${item.projectId}/${item.monitorId}`);
            this.#routes.listed(item, atMs);
          },
          signal,
        );
        this.#routes.forgetUnlisted(listed, startedAtMs);
      } catch (error) {
        this.#options.log.debug({ err: error }, 'Could not read all states; the next time will do.');
      }
    }
  }

  #watchAll(): void {
    const { watchNamespaces } = this.#options;
    const { monitors, callbacks, namespaces } = this.context;
    const routes = this.#routes;
    for (const namespace of watchNamespaces.length > 0 ? watchNamespaces : [undefined]) {
      this.#watch(MONITORS, { store: monitors, namespace }, (change) => routes.monitorChanged(change));
      this.#watch(CALLBACKS, { store: callbacks, namespace }, (change) => routes.callbackChanged(change));
    }
    if (!this.context.settings.isClusterWide) return;
    this.#watch(NAMESPACES, { store: namespaces }, (change) => routes.namespaceChanged(change));
  }

  #watch<T extends KubeObject>(
    resource: KubeResource<T>,
    place: { store: ObjectStore<T>; namespace?: string },
    onChange: (change: StoreChange<T>) => void,
  ): void {
    const { kube: client, kubeMetrics: metrics, log } = this.#options;
    this.#reflectors.push(new Reflector<T>({ client, resource, metrics, log, onChange, ...place }));
  }
}

/** What changed while nobody led goes before what is only to be looked at. */
function enqueueAll(controller: Controller, objects: Iterable<MonitorObject | CallbackObject>): void {
  for (const object of objects) {
    const { generation, deletionTimestamp } = object.metadata;
    const isSeen = deletionTimestamp === undefined && object.status?.observedGeneration === generation;
    controller.enqueue(objectKey(object), isSeen ? 'low' : 'normal');
  }
}

function createContext(options: RuntimeOptions): OperatorContext {
  const { kube, api, events, log, metrics, watchNamespaces, tuning } = options;
  return {
    ...{ kube, api, events, log, metrics },
    monitors: createMonitorStore(),
    callbacks: createCallbackStore(),
    namespaces: new ObjectStore<KubeObject>(),
    projects: new ProjectDirectory(api),
    bindings: new BindingDirectory(api),
    statusCache: new MonitorStatusCache(),
    monitorMemories: new ObjectMemories<MonitorObject>(),
    callbackMemories: new ObjectMemories<CallbackObject>(),
    settings: { ...tuning, isClusterWide: watchNamespaces.length === 0 },
  };
}
