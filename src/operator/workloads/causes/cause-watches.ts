// Nodes and ResourceQuotas of the cluster, as far as the operator may see them. It works without them: then their causes are
// not seen.
import type { KubeClient } from '../../../kube/kube-client.ts';
import type { KubeError } from '../../../kube/kube-error.ts';
import type { KubeLog } from '../../../kube/kube-log.ts';
import type { KubeMetrics } from '../../../kube/kube-metrics.ts';
import type { KubeObject, KubeResource } from '../../../kube/kube-object.ts';
import { ObjectStore, type StoreChange } from '../../../kube/object-store.ts';
import { Reflector } from '../../../kube/reflector.ts';
import { isReady, NODES, type NodeObject, QUOTAS, type QuotaObject } from './cause-objects.ts';

export interface CauseWatchOptions {
  kube: KubeClient;
  log: KubeLog;
  metrics: KubeMetrics | undefined;
  /** The namespaces whose quotas are watched; undefined stands for all. */
  scopes: readonly (string | undefined)[];
}

/** What has changed: a node has become ready or not, or went; a quota; or what may be seen at all. */
export interface CauseListener {
  nodeChanged(name: string): void;
  quotaChanged(namespace: string): void;
  sightChanged(): void;
}

const UNSEEN: Readonly<Record<string, string>> = {
  nodes:
    'The operator may not list and watch nodes: Jobs that stop with their node have an alert each. Grant it where one alert is wanted.',
  resourcequotas:
    'The operator may not list and watch resourcequotas: Jobs without pods because of a quota have an alert each. Grant it where one alert is wanted.',
};

export class CauseWatches {
  readonly #options: CauseWatchOptions;
  readonly #listeners: CauseListener[] = [];
  readonly #nodes = new ObjectStore<NodeObject>();
  readonly #quotas = new ObjectStore<QuotaObject>();
  readonly #nodeWatch: Reflector<NodeObject>;
  readonly #watches: readonly Pick<Reflector<KubeObject>, 'start' | 'stop' | 'hasSynced' | 'isFailing'>[];
  /** The namespaces in which the cluster refuses it, by resource. */
  readonly #refused = new Map<string, Set<string>>();
  /** The watches that the cluster has refused since they last listed. */
  readonly #refusedWatches = new Set<object>();

  constructor(options: CauseWatchOptions) {
    this.#options = options;
    this.#nodeWatch = this.#watch(NODES, this.#nodes, undefined, (change) => this.#nodeChanged(change));
    const ofQuota = ({ object }: StoreChange<QuotaObject>) =>
      this.#tell((one) => one.quotaChanged(object.metadata.namespace ?? ''));
    const quotas = options.scopes.map((scope) => this.#watch(QUOTAS, this.#quotas, scope, ofQuota));
    this.#watches = [this.#nodeWatch, ...quotas];
  }

  start(): void {
    for (const watch of this.#watches) watch.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#watches.map((watch) => watch.stop()));
  }

  /** The listener only enqueues. */
  subscribe(listener: CauseListener): void {
    this.#listeners.push(listener);
  }

  /** Each collection was listed whole, or cannot be for now. */
  get isSettled(): boolean {
    return this.#watches.every(
      (watch) => watch.hasSynced || watch.isFailing || this.#refusedWatches.has(watch),
    );
  }

  /** Whether a node is not ready, or gone. False as long as nobody knows. */
  isNodeDown(name: string): boolean {
    const watch = this.#nodeWatch;
    if (!watch.hasSynced || this.#refusedWatches.has(watch)) return false;
    const node = this.#nodes.get(name);
    // A watch that is broken lacks the newest nodes.
    return node === undefined ? !watch.isFailing : !isReady(node);
  }

  quotasIn(namespace: string): QuotaObject[] {
    const refused = this.#refused.get(QUOTAS.plural);
    return refused?.has(namespace) || refused?.has('') ? [] : this.#quotas.listInNamespace(namespace);
  }

  /** The kubelet and the control plane write a node often: only readiness counts. */
  #nodeChanged({ type, object, previous }: StoreChange<NodeObject>): void {
    if (type === 'updated' && isReady(object) === isReady(previous)) return;
    this.#tell((one) => one.nodeChanged(object.metadata.name));
  }

  #watch<T extends KubeObject>(
    resource: KubeResource<T>,
    store: ObjectStore<T>,
    namespace: string | undefined,
    onChange: (change: StoreChange<T>) => void,
  ): Reflector<T> {
    const { kube: client, log, metrics } = this.#options;
    const watch: Reflector<T> = new Reflector<T>({
      ...{ client, resource, store, onChange, log, isOptional: true },
      ...(namespace === undefined ? {} : { namespace }),
      ...(metrics === undefined ? {} : { metrics }),
      onRefused: (refusal) => this.#setRefusal(watch, resource.plural, namespace ?? '', refusal),
    });
    return watch;
  }

  /** One line for each resource, however many namespaces and attempts. */
  #setRefusal(watch: object, resource: string, namespace: string, refusal: KubeError | undefined): void {
    const { log } = this.#options;
    const refused = this.#refused.get(resource) ?? new Set();
    this.#refused.set(resource, refused);
    const [wasRefused, wasAny] = [refused.has(namespace), refused.size > 0];
    if (refusal === undefined) {
      refused.delete(namespace);
      this.#refusedWatches.delete(watch);
    } else {
      refused.add(namespace);
      this.#refusedWatches.add(watch);
    }
    if (refused.has(namespace) !== wasRefused) this.#tell((one) => one.sightChanged());
    if (refused.size > 0 === wasAny) return;
    if (refusal === undefined) log.info({ resource }, 'The operator may list and watch them again.');
    else log.info({ err: refusal, resource }, UNSEEN[resource] ?? '');
  }

  #tell(call: (listener: CauseListener) => void): void {
    for (const listener of this.#listeners) call(listener);
  }
}
