// Runs one kind of object: its cache and watches, its queue, its workers.
import { findCondition } from '../kube/conditions.ts';
import { Controller, type Reconcile } from '../kube/controller.ts';
import type { KubeMetrics } from '../kube/kube-metrics.ts';
import { type KubeObject, namespaceOfKey, objectKey } from '../kube/kube-object.ts';
import type { StoreChange } from '../kube/object-store.ts';
import { Reflector } from '../kube/reflector.ts';
import type { QueuePriority } from '../kube/work-queue.ts';
import type { ObjectMemory } from './known/object-cache.ts';
import type { Watch } from './known/watched-namespaces.ts';
import type { OperatorContext } from './operator-context.ts';
import { idOf } from './pass/identity.ts';
import type { Desired, Kind } from './pass/kind.ts';
import type { ReconciledObject } from './pass/object.ts';
import { Reconciler } from './pass/reconcile.ts';
import { otherReleaseOf } from './pass/release.ts';
import { countStalled } from './stalled-objects.ts';

export class KindWorker<O extends ReconciledObject, D extends Desired, E> {
  readonly #context: OperatorContext;
  readonly #kind: Kind<O, D, E>;
  readonly #kubeMetrics: KubeMetrics | undefined;
  readonly #controller: Controller;
  #isWorking: boolean = false;

  constructor(context: OperatorContext, kind: Kind<O, D, E>, kubeMetrics?: KubeMetrics) {
    this.#context = context;
    this.#kind = kind;
    this.#kubeMetrics = kubeMetrics;
    const reconciler = new Reconciler(context, kind);
    // Nobody knows what a namespace holds that cannot be read: its objects wait for `namespaceChanged`.
    const reconcile: Reconcile = async (key, pass) =>
      context.watched.isDegraded(namespaceOfKey(key)) ? undefined : await reconciler.reconcile(key, pass);
    const name = kind.resource.kind.toLowerCase();
    const { concurrency } = kind;
    this.#controller = new Controller({
      name,
      reconcile,
      concurrency,
      metrics: kubeMetrics,
      log: context.log,
    });
    kind.cache.subscribe((change) => this.#changed(change));
    kind.watch?.((objects, priority) => this.#enqueue(objects, priority));
  }

  get objects(): Iterable<KubeObject> {
    return this.#kind.cache.values();
  }

  /** The cached object under `namespace/name`. */
  find(key: string): ReconciledObject | undefined {
    return this.#kind.cache.get(key);
  }

  get size(): number {
    return this.#kind.cache.size;
  }

  memoryOf(object: KubeObject): Readonly<ObjectMemory> {
    return this.#kind.cache.memoryOf(object);
  }

  /** A watch that keeps the cache equal to the objects of a namespace, or of all namespaces. */
  watch(namespace: string | undefined): Watch {
    const { resource, cache } = this.#kind;
    const { kube: client, log, watched } = this.#context;
    return new Reflector({
      client,
      resource,
      namespace,
      store: cache,
      onChange: (change) => cache.publish(change),
      onRefused: (refusal) => watched.setRefusal(namespace ?? '', resource.plural, refusal),
      metrics: this.#kubeMetrics,
      log,
    });
  }

  /** Objects that changed while nobody led go before objects that only need a check. */
  start(): void {
    this.#isWorking = true;
    for (const object of this.#kind.cache.values()) {
      const { generation, deletionTimestamp } = object.metadata;
      const isSeen = deletionTimestamp === undefined && object.status?.observedGeneration === generation;
      this.#controller.enqueue(objectKey(object), isSeen ? 'low' : 'normal');
    }
    this.#controller.start();
  }

  async stop(graceMs: number): Promise<void> {
    await Promise.all([this.#controller.stop(graceMs), this.#kind.stop?.(graceMs)]);
  }

  /** Called when the namespace has moved to another project, and when it can be read again. */
  namespaceChanged(name: string): void {
    this.#enqueue(this.#kind.cache.listInNamespace(name));
  }

  /** Looks at every object again, behind others. */
  checkAll(): void {
    if (!this.#isWorking) return;
    for (const object of this.#kind.cache.values()) this.#controller.enqueue(objectKey(object), 'low');
  }

  /** Called when the API answers again: unsynced objects are reconciled at once. */
  apiRecovered(wasForbidden: boolean): void {
    const { cache } = this.#kind;
    if (wasForbidden) cache.forgetRefusals('service.permission_denied');
    const isSynced = ({ status }: O) => findCondition(status?.conditions, 'Synced')?.status === 'True';
    this.#enqueue([...cache.values()].filter((object) => !isSynced(object)));
  }

  measure(): void {
    const { cache, resource } = this.#kind;
    const { kind } = resource;
    const { stalled, otherReleases } = this.#context.metrics;
    for (const [reason, count] of countStalled(this.#objectsInCare())) stalled.set({ kind, reason }, count);
    otherReleases.set({ kind }, cache.ofOtherReleases);
  }

  /** Those that no other release manages, in namespaces that can be read. */
  *#objectsInCare(): Iterable<O> {
    const { settings, watched } = this.#context;
    for (const object of this.#kind.cache.values()) {
      if (otherReleaseOf(object, settings.release) !== undefined) continue;
      if (!watched.isDegraded(object.metadata.namespace ?? '')) yield object;
    }
  }

  /** Enqueues the object, and those that claim an id that it gave up. */
  #changed({ type, object, previous }: StoreChange<O>): void {
    const { cache, identity } = this.#kind;
    // The watch brings also what a pass has just written.
    const { resourceVersion } = cache.memoryOf(object).written?.metadata ?? {};
    const isOwnWrite = type === 'updated' && resourceVersion === object.metadata.resourceVersion;
    this.#enqueue([object], isOwnWrite ? 'low' : 'normal');
    const former = type === 'deleted' ? object : previous;
    if (former === undefined) return;
    const id = idOf(identity, former);
    if (type === 'deleted' || id !== idOf(identity, object)) this.#enqueue(cache.listBy('id', id));
  }

  /** A standby keeps no queue: the keys of deleted objects would pile up in it for weeks. */
  #enqueue(objects: Iterable<O>, priority?: QueuePriority): void {
    if (!this.#isWorking) return;
    for (const object of objects) this.#controller.enqueue(objectKey(object), priority);
  }
}
