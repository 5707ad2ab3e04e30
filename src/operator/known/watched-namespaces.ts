// The namespaces that the operator watches. Where single ones are named, one that is gone, or whose rights are gone, is
// degraded: its objects are left as they are until it can be listed again, and the other namespaces go on.
import type { KubeError } from '../../kube/kube-error.ts';
import type { KubeLog } from '../../kube/kube-log.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import type { Reflector } from '../../kube/reflector.ts';
import type { OperatorMetrics } from '../operator-metrics.ts';

export type Watch = Pick<Reflector<KubeObject>, 'start' | 'stop' | 'whenSynced' | 'hasSynced' | 'isHearing'>;

export interface WatchedNamespacesOptions {
  /** Empty: all. */
  names: readonly string[];
  metrics: Pick<OperatorMetrics, 'degradedNamespaces'>;
  log: KubeLog;
}

/** Where all namespaces are watched, their one entry has this name. */
const ALL = '';

interface Entry {
  watches: Watch[];
  /** What the cluster refuses, by resource. */
  refusals: Map<string, KubeError>;
  /** Resolves at the first refusal. */
  refused: PromiseWithResolvers<void>;
}

export class WatchedNamespaces {
  readonly #options: WatchedNamespacesOptions;
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly #listeners: ((namespace: string) => void)[] = [];

  constructor(options: WatchedNamespacesOptions) {
    this.#options = options;
    const { names, metrics } = options;
    const newEntry = (): Entry => ({
      watches: [],
      refusals: new Map(),
      refused: Promise.withResolvers<void>(),
    });
    this.#entries = new Map((names.length > 0 ? names : [ALL]).map((name) => [name, newEntry()]));
    for (const namespace of names) metrics.degradedNamespaces.set({ namespace }, 0);
  }

  /** Opens a watch of each namespace, or one of all of them. */
  watch(open: (namespace: string | undefined) => Watch): void {
    this.watchAll((namespace) => [open(namespace)]);
  }

  /** Like `watch`, of several kinds. */
  watchAll(open: (namespace: string | undefined) => Watch[]): void {
    for (const [name, { watches }] of this.#entries) watches.push(...open(name === ALL ? undefined : name));
  }

  /** The names of those that are watched; undefined stands for all. */
  get scopes(): (string | undefined)[] {
    return [...this.#entries.keys()].map((name) => (name === ALL ? undefined : name));
  }

  /** Calls the listener when a degraded namespace can be seen again. It only enqueues. */
  onRecovered(listener: (namespace: string) => void): void {
    this.#listeners.push(listener);
  }

  /** What the cluster refuses in a named namespace; undefined: nothing any more. */
  setRefusal(namespace: string, resource: string, refusal: KubeError | undefined): void {
    const entry = this.#entries.get(namespace);
    if (entry === undefined) return;
    const wasDegraded = entry.refusals.size > 0;
    if (refusal === undefined) entry.refusals.delete(resource);
    else entry.refusals.set(resource, refusal);
    const isDegraded = entry.refusals.size > 0;
    if (isDegraded) entry.refused.resolve();
    if (isDegraded === wasDegraded) return;
    const { metrics, log } = this.#options;
    metrics.degradedNamespaces.set({ namespace }, isDegraded ? 1 : 0);
    if (isDegraded) {
      const facts = { err: refusal, namespace, resource };
      log.warn(facts, 'A watched namespace cannot be read: it is gone, or the rights of the operator in it.');
      return;
    }
    log.info({ namespace }, 'A watched namespace can be read again.');
    for (const listener of this.#listeners) listener(namespace);
  }

  start(): void {
    for (const watch of this.#all) watch.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map((watch) => watch.stop()));
  }

  /** Resolves when each namespace was listed whole, or is degraded. Rejects with the signal's reason. */
  async whenSynced(signal: AbortSignal): Promise<void> {
    await Promise.all(
      [...this.#entries.values()].map(({ watches, refused }) => {
        const synced = Promise.all(watches.map((watch) => watch.whenSynced(signal)));
        return Promise.race([synced, refused.promise]);
      }),
    );
  }

  /** True if each namespace was listed whole, or is degraded. */
  get hasSynced(): boolean {
    return [...this.#entries.values()].every((entry) => entry.refusals.size > 0 || isFull(entry));
  }

  /** False if a watch hears nothing. A refusal is an answer. */
  get isHearing(): boolean {
    return this.#all.every(({ isHearing }) => isHearing);
  }

  /** True if the caches have all objects of the namespace: only then does a missing one mean that there is none. */
  isWatched(namespace: string): boolean {
    const entry = this.#entries.get(namespace) ?? this.#entries.get(ALL);
    return entry !== undefined && entry.refusals.size === 0 && isFull(entry);
  }

  isDegraded(namespace: string): boolean {
    return (this.#entries.get(namespace)?.refusals.size ?? 0) > 0;
  }

  /** The names of the degraded namespaces. */
  get degraded(): string[] {
    return [...this.#entries].filter(([, { refusals }]) => refusals.size > 0).map(([name]) => name);
  }

  get #all(): Watch[] {
    return [...this.#entries.values()].flatMap(({ watches }) => watches);
  }
}

function isFull({ watches }: Entry): boolean {
  return watches.every(({ hasSynced }) => hasSynced);
}
