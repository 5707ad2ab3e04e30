// Keeps a store equal to one collection of the cluster: lists, watches, resumes, and never gives up.
// It reports each change and decides nothing.

import { setTimeout as delay } from 'node:timers/promises';
import { type BackoffOptions, backoffMs } from './backoff.ts';
import type { KubeClient, WatchEvent } from './kube-client.ts';
import { isExpired, isForbidden, isNamespaceMissing, isNotFound, KubeError } from './kube-error.ts';
import { type KubeLog, silentLog } from './kube-log.ts';
import type { KubeMetrics } from './kube-metrics.ts';
import { type KubeObject, type KubeResource, objectKey, withoutManagedFields } from './kube-object.ts';
import { listIntoStore } from './list-into-store.ts';
import { ObjectStore, type StoreChange } from './object-store.ts';
import { WatchLimit } from './watch-limit.ts';

export interface ReflectorOptions<T extends KubeObject> {
  client: KubeClient;
  resource: KubeResource<T>;
  /** The namespace to watch; default all. Several reflectors of different namespaces may share a store. */
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Default: a new store without indexes. */
  store?: ObjectStore<T>;
  /** Called after the store has changed. It should only enqueue: the reflector logs what it throws and continues. */
  onChange?: (change: StoreChange<T>) => void;
  /**
   * Called while the server refuses the named namespace (403, or 404 because there is none), and with undefined when it
   * does no more. The store keeps its objects meanwhile: nobody knows whether they are there. Only with `namespace`, or if
   * the collection is optional.
   */
  onRefused?: (refusal: KubeError | undefined) => void;
  /** The owner does without the collection where it may not be seen: also a refusal of all namespaces is an answer. */
  isOptional?: boolean;
  tuning?: ReflectorTuning;
  metrics?: KubeMetrics;
  log?: KubeLog;
}

/** For tests. The defaults are right for clusters. */
export interface ReflectorTuning {
  /** Objects per list page. Default 500. */
  pageSize?: number;
  /** Bounds of the time after which the server ends a watch. Default 240 and 300. */
  watchTimeoutSeconds?: readonly [least: number, greatest: number];
  /** How long after that time the reflector ends a watch that the server has not ended. Default 10,000. */
  watchGraceMs?: number;
  /**
   * After how long without a line a watch is taken for dead, and opened again. Default 100,000: an API server sends a bookmark
   * about once a minute.
   */
  silenceMs?: number;
  /** Default 1,000 to 30,000. */
  backoff?: BackoffOptions;
}

/** How a watch ended: the label of the metric. Each of them happens in normal operation. */
type WatchEnd = 'server' | 'silent' | 'broken' | 'expired' | 'refused';

/** A page of 500 large objects may take longer than a call about one object. */
const listTimeoutMs = 30_000;
/** A watch that ends sooner without an event counts as a failure: the reflector must not spin in a tight loop. */
const shortWatchMs = 1000;

const SILENT =
  'Nothing came on a watch for too long, or it outlived its time limit: the connection is dead. The reflector opens it again.';

export class Reflector<T extends KubeObject> {
  readonly store: ObjectStore<T>;
  readonly #options: ReflectorOptions<T>;
  readonly #log: KubeLog;
  readonly #watchTimeoutSeconds: readonly [number, number];
  readonly #watchGraceMs: number;
  readonly #silenceMs: number;
  readonly #backoff: BackoffOptions;

  #run: { abort: AbortController; ended: Promise<void> } | undefined;
  #synced = Promise.withResolvers<void>();
  #hasSynced: boolean = false;
  #heardAtMs = performance.now();
  /** The version from which the next watch starts; undefined: list first. */
  #resourceVersion: string | undefined;
  #failures = 0;
  #isRefused: boolean = false;
  /** The server has opened the watch. */
  #isOpen: boolean = false;
  #lastError: unknown;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.store = options.store ?? new ObjectStore<T>();
    this.#log = options.log ?? silentLog;
    this.#watchTimeoutSeconds = options.tuning?.watchTimeoutSeconds ?? [240, 300];
    this.#watchGraceMs = options.tuning?.watchGraceMs ?? 10_000;
    this.#silenceMs = options.tuning?.silenceMs ?? 100_000;
    this.#backoff = options.tuning?.backoff ?? { baseMs: 1000, maxMs: 30_000 };
  }

  /** Starts the loop. Does nothing if it is running. */
  start(): void {
    if (this.#run !== undefined) return;
    const abort = new AbortController();
    this.#heardAtMs = performance.now();
    this.#run = { abort, ended: this.#loop(abort.signal) };
  }

  /** Ends the loop. After it resolves, `onChange` is not called again. The store keeps its objects. */
  async stop(): Promise<void> {
    const run = this.#run;
    if (run === undefined) return;
    run.abort.abort();
    await run.ended;
    if (this.#run === run) this.#run = undefined;
  }

  /** True after the first complete list. */
  get hasSynced(): boolean {
    return this.#hasSynced;
  }

  /** Resolves after the first complete list. Rejects with the signal's reason if that aborts first. */
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

  /** Milliseconds since the last sign of life of the cluster: data, bookmark, list, begin or orderly end of a watch, or an error. */
  get silentMs(): number {
    return performance.now() - this.#heardAtMs;
  }

  /** False if the reflector is stopped, or hears nothing for longer than a watch and two retries last. For `/livez`. */
  get isHearing(): boolean {
    const greatestMs = this.#watchTimeoutSeconds[1] * 1000 + this.#watchGraceMs + 2 * this.#backoff.maxMs;
    return this.#run !== undefined && this.silentMs < greatestMs;
  }

  /**
   * True while there is no watch, and the server is away: one failure is a connection that broke, and the next one goes
   * through at once as a rule. A refusal of the namespace is an answer.
   */
  get isFailing(): boolean {
    return !this.#isOpen && this.#failures >= 2 && !this.#isRefused;
  }

  /** Why there is no watch, while `isFailing`. */
  get failure(): string | undefined {
    if (!this.isFailing) return undefined;
    const { plural } = this.#options.resource;
    const error = this.#lastError;
    // Of a custom resource without its definition the server says `404 page not found`.
    if (isNotFound(error) && !isNamespaceMissing(error)) return `The server does not serve ${plural}.`;
    return `${plural}: ${error instanceof Error ? error.message : String(error)}`;
  }

  /** True if what has changed since may not have reached the store: nothing was heard for so long that a connection may be dead. */
  get isSilent(): boolean {
    return this.silentMs > this.#silenceMs;
  }

  /** One loop with one signal, so that a reflector never has two watches. */
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
      // An answer may arrive after `stop`; then no change may be reported.
      onHeard: () => {
        signal.throwIfAborted();
        this.#heard();
      },
      onChange: (change) => this.#notify(change),
    });
    this.#options.metrics?.lists.inc({ resource: resource.plural });
    this.#hasSynced = true;
    this.#synced.resolve();
    if (!this.#isRefused) return;
    this.#isRefused = false;
    this.#options.onRefused?.(undefined);
  }

  /** Returns if the next watch may open at once; throws the errors that need a pause before it. */
  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { client, resource, namespace, labelSelector, fieldSelector } = this.#options;
    const timeoutSeconds = this.#pickTimeoutSeconds();
    const limitMs = timeoutSeconds * 1000 + this.#watchGraceMs;
    const limit = new WatchLimit(signal, { limitMs, silenceMs: this.#silenceMs });
    const openedAtMs = performance.now();
    let events = 0;
    try {
      const selection = { namespace, labelSelector, fieldSelector };
      const onOpen = (): void => {
        this.#isOpen = true;
        this.#heardAtMs = performance.now();
        limit.heard();
      };
      const watch = { ...selection, resourceVersion, timeoutSeconds, signal: limit.signal, onOpen };
      for await (const event of client.watch(resource, watch)) {
        if (signal.aborted) return;
        events += 1;
        limit.heard();
        this.#applyEvent(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#endWatch(endOf(error, limit.isOver));
      if (limit.isOver) this.#log.warn({ resource: resource.plural, namespace }, SILENT);
      if (isExpired(error)) this.#resourceVersion = undefined;
      // Only the connection is broken, not the server: the next watch may open at once.
      if (limit.isOver || (isExpired(error) && events > 0)) return;
      throw error;
    } finally {
      this.#isOpen = false;
      limit.end();
    }
    this.#endWatch('server');
    if (events === 0 && performance.now() - openedAtMs < shortWatchMs) {
      throw new KubeError('The server ended the watch at once.', { status: 0, reason: 'Unreachable' });
    }
    this.#heard();
  }

  #applyEvent(event: WatchEvent<T>): void {
    this.#heard();
    if (event.type === 'BOOKMARK') {
      if (event.resourceVersion !== '') this.#resourceVersion = event.resourceVersion;
      return;
    }
    const object = withoutManagedFields(event.object);
    const changes =
      event.type === 'DELETED' ? this.store.remove(objectKey(object), object) : this.store.put(object);
    for (const change of changes) this.#notify(change);
    this.#resourceVersion = event.object.metadata.resourceVersion ?? this.#resourceVersion;
  }

  #notify(change: StoreChange<T>): void {
    this.#options.metrics?.cached.set({ resource: this.#options.resource.plural }, this.store.size);
    try {
      this.#options.onChange?.(change);
    } catch (error) {
      this.#log.error({ err: error, key: change.key }, 'A change handler of a reflector threw.');
    }
  }

  /** The cluster has answered: the next failure counts as the first. */
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
    this.#lastError = error;
    if (isAnswer(error)) this.#heardAtMs = performance.now();
    const isRefused = this.#settleRefusal(error);
    const retryAfterMs = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
    const pauseMs = Math.max(backoffMs(this.#failures, this.#backoff), retryAfterMs);
    const facts = { err: error, resource: this.#options.resource.plural, pauseMs: Math.round(pauseMs) };
    // One or two failures are normal: servers restart. From the third on, somebody should look.
    const level = this.#failures < 3 || isRefused ? 'debug' : 'warn';
    this.#log[level](facts, 'Cannot list or watch the cluster; the reflector will try again.');
    await delay(pauseMs, undefined, { signal }).catch(() => undefined);
  }

  /** True for a refusal that the owner of the reflector handles. It is an answer: the cluster is heard. */
  #settleRefusal(error: unknown): boolean {
    const { namespace, onRefused, isOptional } = this.#options;
    if (onRefused === undefined || (namespace === undefined && !isOptional)) return false;
    if (!isForbidden(error) && !isNamespaceMissing(error)) return false;
    // A list, and no silent watch, shows that the refusal has ended.
    this.#resourceVersion = undefined;
    this.#isRefused = true;
    onRefused(error);
    return true;
  }
}

/** An error of the server shows that it is reached. After a 401 only new credentials help, which a new process has. */
function isAnswer(error: unknown): boolean {
  return error instanceof KubeError && error.status > 0 && error.status !== 401;
}

function endOf(error: unknown, isOver: boolean): WatchEnd {
  if (isOver) return 'silent';
  if (isExpired(error)) return 'expired';
  return error instanceof KubeError && error.status > 0 ? 'refused' : 'broken';
}
