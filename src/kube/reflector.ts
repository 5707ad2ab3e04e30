// Keeps a store equal to one collection of the cluster: lists, watches, resumes, and never gives up.
// It says what changed; it decides nothing.

import type { BackoffOptions } from './backoff.ts';
import type { KubeClient } from './kube-client.ts';
import type { KubeLog } from './kube-log.ts';
import type { KubeMetrics } from './kube-metrics.ts';
import type { KubeObject, KubeResource } from './kube-object.ts';
import type { ObjectStore, StoreChange } from './object-store.ts';

export interface ReflectorOptions<T extends KubeObject> {
  client: KubeClient;
  resource: KubeResource<T>;
  /** One namespace; left out: all. Several reflectors of different namespaces may share a store. */
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Default: a new one without indexes. */
  store?: ObjectStore<T>;
  /** Applied before storing: strip what is not needed. Default `withoutManagedFields`. */
  transform?: (object: T) => T;
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

export class Reflector<T extends KubeObject> {
  readonly store: ObjectStore<T>;

  constructor(options: ReflectorOptions<T>) {
    throw new Error(`not written yet: ${options.resource.plural}`);
  }

  /** Starts the loop. Does nothing if it runs. */
  start(): void {
    throw new Error('not written yet');
  }

  /** Ends the loop; no change is told after it resolves. The store keeps what it has. */
  stop(): Promise<void> {
    throw new Error('not written yet');
  }

  /** True from the first complete list on. */
  get hasSynced(): boolean {
    throw new Error('not written yet');
  }

  /** Resolves at the first complete list. Rejects with the signal's reason. */
  whenSynced(signal?: AbortSignal): Promise<void> {
    throw new Error(`not written yet: ${signal}`);
  }

  /** Milliseconds since the cluster last said anything (data, bookmark, list, opened watch). */
  get silentMs(): number {
    throw new Error('not written yet');
  }

  /** False when it is deaf: silent for longer than a watch can last, or stopped. For `/livez`. */
  get isHearing(): boolean {
    throw new Error('not written yet');
  }
}
