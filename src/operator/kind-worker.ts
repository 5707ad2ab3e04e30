// Runs one kind of object: its cache and watches, its queue, its workers.
import { findCondition } from '../kube/conditions.ts';
import { Controller, type Reconcile } from '../kube/controller.ts';
import type { KubeMetrics } from '../kube/kube-metrics.ts';
import { type KubeObject, type KubeResource, namespaceOfKey, objectKey } from '../kube/kube-object.ts';
import type { StoreChange } from '../kube/object-store.ts';
import { Reflector } from '../kube/reflector.ts';
import type { QueuePriority } from '../kube/work-queue.ts';
import type { ObjectCache, ObjectMemory } from './known/object-cache.ts';
import type { Watch } from './known/watched-namespaces.ts';
import type { OperatorContext } from './operator-context.ts';
import { idOf } from './pass/identity.ts';
import type { Enqueue } from './pass/kind.ts';
import type { CustomObject, Identity } from './pass/object.ts';
import { otherReleaseOf } from './pass/release.ts';
import { countStalled } from './stalled-objects.ts';

/** What a worker needs of a kind. */
export interface WorkedKind<O extends CustomObject> {
  readonly resource: KubeResource<O>;
  readonly cache: ObjectCache<O>;
  readonly concurrency: number;
  /** Undefined: no two objects can claim the same resource of the API. */
  readonly identity?: Identity;
  /** Called once. Subscribes to every other source of change, and enqueues the objects concerned. */
  watch?(enqueue: Enqueue<O>): void;
  /** Ends what the kind does beside its passes, within `graceMs`. */
  stop?(graceMs: number): Promise<unknown>;
}

/** When an object is looked at again whose namespace is not listed whole yet. */
const UNLISTED_MS = 1000;

export class KindWorker<O extends CustomObject> {
  readonly #context: OperatorContext;
  readonly #kind: WorkedKind<O>;
  readonly #kubeMetrics: KubeMetrics | undefined;
  readonly #controller: Controller;
  #isWorking: boolean = false;

  /** `pass` is one pass over the object under a key. */
  constructor(context: OperatorContext, kind: WorkedKind<O>, pass: Reconcile, kubeMetrics?: KubeMetrics) {
    this.#context = context;
    this.#kind = kind;
    this.#kubeMetrics = kubeMetrics;
    // Nobody knows what a namespace holds that cannot be read: its objects wait for `namespaceChanged`.
    const reconcile: Reconcile = async (key, given) => {
      const namespace = namespaceOfKey(key);
      if (context.watched.isDegraded(namespace)) return undefined;
      // A missing object is not gone while some kind of the namespace is still being listed.
      return context.watched.isWatched(namespace) ? await pass(key, given) : { requeueAfterMs: UNLISTED_MS };
    };
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
  find(key: string): CustomObject | undefined {
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
    const { kube: client, log, watched, watchTuning: tuning } = this.#context;
    return new Reflector({
      client,
      resource,
      namespace,
      store: cache,
      onChange: (change) => cache.publish(change),
      onRefused: (refusal) => watched.setRefusal(namespace ?? '', resource.plural, refusal),
      metrics: this.#kubeMetrics,
      ...(tuning === undefined ? {} : { tuning }),
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
    if (former === undefined || identity === undefined) return;
    const id = idOf(identity, former);
    if (type === 'deleted' || id !== idOf(identity, object)) this.#enqueue(cache.listBy('id', id));
  }

  /** A standby keeps no queue: the keys of deleted objects would pile up in it for weeks. */
  #enqueue(objects: Iterable<O>, priority?: QueuePriority): void {
    if (!this.#isWorking) return;
    for (const object of objects) this.#controller.enqueue(objectKey(object), priority);
  }
}
