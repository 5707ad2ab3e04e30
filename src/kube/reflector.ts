// Keeps a store equal to one collection of the cluster: lists, watches, resumes, and never gives up.
// It says what changed; it decides nothing.

import { setTimeout as delay } from 'node:timers/promises';
import { type BackoffOptions, backoffMs } from './backoff.ts';
import type { KubeClient, WatchEvent } from './kube-client.ts';
import { isExpired, KubeError } from './kube-error.ts';
import { type KubeLog, silentLog } from './kube-log.ts';
import type { KubeMetrics } from './kube-metrics.ts';
import { type KubeObject, type KubeResource, objectKey, withoutManagedFields } from './kube-object.ts';
import { listIntoStore } from './list-into-store.ts';
import { ObjectStore, type StoreChange } from './object-store.ts';

export interface ReflectorOptions<T extends KubeObject> {
  client: KubeClient;
  resource: KubeResource<T>;
  /** One namespace; left out: all. Several reflectors of different namespaces may share a store. */
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Default: a new one without indexes. */
  store?: ObjectStore<T>;
  /** Called after the store has changed. Only enqueue here: what it throws is logged and dropped. */
  onChange?: (change: StoreChange<T>) => void;
  tuning?: ReflectorTuning;
  metrics?: KubeMetrics;
  log?: KubeLog;
}

/** For tests; the defaults are right for clusters. */
export interface ReflectorTuning {
  /** Objects per list page. Default 500. */
  pageSize?: number;
  /** Least and greatest time after which the server ends a watch. Default 240 and 300. */
  watchTimeoutSeconds?: readonly [least: number, greatest: number];
  /** We end a watch that the server did not end, this long after. Default 10,000. */
  watchGraceMs?: number;
  /** Default 1,000 to 30,000. */
  backoff?: BackoffOptions;
}

/** How a watch ended, all of them normal: the label of the metric. */
type WatchEnd = 'server' | 'silent' | 'broken' | 'expired' | 'refused';

/** A page of 500 large objects may take longer than a call on one. */
const listTimeoutMs = 30_000;
/** A watch that ends sooner and brought nothing counts as a failure, else it would be opened in a tight loop. */
const shortWatchMs = 1000;

export class Reflector<T extends KubeObject> {
  readonly store: ObjectStore<T>;
  readonly #options: ReflectorOptions<T>;
  readonly #log: KubeLog;
  readonly #watchTimeoutSeconds: readonly [number, number];
  readonly #watchGraceMs: number;
  readonly #backoff: BackoffOptions;

  #run: { abort: AbortController; ended: Promise<void> } | undefined;
  #synced = Promise.withResolvers<void>();
  #hasSynced: boolean = false;
  #heardAtMs = performance.now();
  /** Where the watch goes on; undefined: list first. */
  #resourceVersion: string | undefined;
  #failures = 0;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.store = options.store ?? new ObjectStore<T>();
    this.#log = options.log ?? silentLog;
    this.#watchTimeoutSeconds = options.tuning?.watchTimeoutSeconds ?? [240, 300];
    this.#watchGraceMs = options.tuning?.watchGraceMs ?? 10_000;
    this.#backoff = options.tuning?.backoff ?? { baseMs: 1000, maxMs: 30_000 };
  }

  /** Starts the loop. Does nothing if it runs. */
  start(): void {
    if (this.#run !== undefined) return;
    const abort = new AbortController();
    this.#heardAtMs = performance.now();
    this.#run = { abort, ended: this.#loop(abort.signal) };
  }

  /** Ends the loop; no change is told after it resolves. The store keeps what it has. */
  async stop(): Promise<void> {
    const run = this.#run;
    if (run === undefined) return;
    run.abort.abort();
    await run.ended;
    if (this.#run === run) this.#run = undefined;
  }

  /** True from the first complete list on. */
  get hasSynced(): boolean {
    return this.#hasSynced;
  }

  /** Resolves at the first complete list. Rejects with the signal's reason. */
  whenSynced(signal?: AbortSignal): Promise<void> {
    if (signal === undefined) return this.#synced.promise;
    return new Promise((resolve, reject) => {
      const stopWaiting = (): void => reject(signal.reason);
      if (signal.aborted) stopWaiting();
      signal.addEventListener('abort', stopWaiting, { once: true });
      void this.#synced.promise.then(() => {
        signal.removeEventListener('abort', stopWaiting);
        resolve();
      });
    });
  }

  /** Milliseconds since the cluster last said anything (data, bookmark, list, orderly end of a watch). */
  get silentMs(): number {
    return performance.now() - this.#heardAtMs;
  }

  /** False when it is deaf: silent for longer than a watch and its repair can last, or stopped. For `/livez`. */
  get isHearing(): boolean {
    const greatestMs = this.#watchTimeoutSeconds[1] * 1000 + this.#watchGraceMs + 2 * this.#backoff.maxMs;
    return this.#run !== undefined && this.silentMs < greatestMs;
  }

  /** One loop with one signal, so that there are never two watches of one reflector. */
  async #loop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (this.#resourceVersion === undefined) await this.#list(signal);
        if (this.#resourceVersion !== undefined) await this.#watch(this.#resourceVersion, signal);
      } catch (error) {
        if (signal.aborted) return;
        await this.#waitAfter(error, signal);
      }
    }
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { client, resource, namespace, labelSelector, fieldSelector, tuning } = this.#options;
    const selection = { namespace, labelSelector, fieldSelector };
    this.#resourceVersion = await listIntoStore({
      store: this.store,
      namespace,
      pageSize: tuning?.pageSize ?? 500,
      fetchPage: (page) => client.list(resource, { ...selection, ...page, timeoutMs: listTimeoutMs, signal }),
      // Checked here, so that nothing is told after `stop` even if an answer was on its way.
      onHeard: () => {
        signal.throwIfAborted();
        this.#heard();
      },
      onChange: (change) => this.#tell(change),
    });
    this.#options.metrics?.lists.inc({ resource: resource.plural });
    this.#hasSynced = true;
    this.#synced.resolve();
  }

  /** Returns when the next watch may be opened at once; throws what calls for a pause. */
  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { client, resource, namespace, labelSelector, fieldSelector } = this.#options;
    const timeoutSeconds = this.#pickTimeoutSeconds();
    const limit = new WatchLimit(signal, timeoutSeconds * 1000 + this.#watchGraceMs);
    const openedAtMs = performance.now();
    let events = 0;
    try {
      const selection = { namespace, labelSelector, fieldSelector };
      const watch = { ...selection, resourceVersion, timeoutSeconds, signal: limit.signal };
      for await (const event of client.watch(resource, watch)) {
        if (signal.aborted) return;
        events += 1;
        this.#take(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#endWatch(endOf(error, limit.isOver));
      if (isExpired(error)) this.#resourceVersion = undefined;
      // A silent connection is replaced at once: that the next one opens is not in doubt.
      if (limit.isOver || (isExpired(error) && events > 0)) return;
      throw error;
    } finally {
      limit.end();
    }
    this.#endWatch('server');
    if (events === 0 && performance.now() - openedAtMs < shortWatchMs) {
      throw new KubeError('The watch ended at once.', { status: 0, reason: 'Unreachable' });
    }
    this.#heard();
  }

  #take(event: WatchEvent<T>): void {
    this.#heard();
    if (event.type === 'BOOKMARK') {
      if (event.resourceVersion !== '') this.#resourceVersion = event.resourceVersion;
      return;
    }
    const object = withoutManagedFields(event.object);
    const changes = event.type === 'DELETED' ? this.store.remove(objectKey(object)) : this.store.put(object);
    for (const change of changes) this.#tell(change);
    this.#resourceVersion = event.object.metadata.resourceVersion ?? this.#resourceVersion;
  }

  #tell(change: StoreChange<T>): void {
    this.#options.metrics?.cached.set({ resource: this.#options.resource.plural }, this.store.size);
    try {
      this.#options.onChange?.(change);
    } catch (error) {
      this.#log.error({ err: error, key: change.key }, 'A change handler of a reflector threw.');
    }
  }

  /** Data has come: the next failure is the first again. */
  #heard(): void {
    this.#heardAtMs = performance.now();
    this.#failures = 0;
  }

  #endWatch(end: WatchEnd): void {
    this.#options.metrics?.watches.inc({ resource: this.#options.resource.plural, end });
  }

  #pickTimeoutSeconds(): number {
    const [least, greatest] = this.#watchTimeoutSeconds;
    const random = this.#backoff.random ?? Math.random;
    return Math.round(least + random() * (greatest - least));
  }

  async #waitAfter(error: unknown, signal: AbortSignal): Promise<void> {
    this.#failures += 1;
    const retryAfterMs = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
    const pauseMs = Math.max(backoffMs(this.#failures, this.#backoff), retryAfterMs);
    const facts = { err: error, resource: this.#options.resource.plural, pauseMs: Math.round(pauseMs) };
    // The first is daily life: servers restart. From the third on, someone should look.
    if (this.#failures < 3) this.#log.debug(facts, 'Lost the cluster; trying again.');
    else this.#log.warn(facts, 'Lost the cluster; trying again.');
    await delay(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

/** Ends a watch on `stop`, or when it outlives the server's own limit: then the connection is dead. */
class WatchLimit {
  readonly #abort = new AbortController();
  readonly #outer: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  isOver = false;

  constructor(outer: AbortSignal, limitMs: number) {
    this.#outer = outer;
    if (outer.aborted) this.#stop();
    outer.addEventListener('abort', this.#stop, { once: true });
    this.#timer = setTimeout(() => {
      this.isOver = true;
      this.#stop();
    }, limitMs);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#outer.removeEventListener('abort', this.#stop);
  }

  readonly #stop = (): void => this.#abort.abort();
}

function endOf(error: unknown, isOver: boolean): WatchEnd {
  if (isOver) return 'silent';
  if (isExpired(error)) return 'expired';
  return error instanceof KubeError && error.status > 0 ? 'refused' : 'broken';
}
