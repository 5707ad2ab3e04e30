// The cache of one kind of object, by key, by namespace and by the caller's indexes. No I/O.

import type { KubeObject } from './kube-object.ts';
import { objectKey } from './kube-object.ts';

/** The values under which `listBy` finds an object: `(monitor) => [monitor.status?.monitorId ?? '']`. Pure. */
export type StoreIndex<T> = (object: T) => readonly string[];

export interface ObjectStoreOptions<T> {
  indexes?: Record<string, StoreIndex<T>>;
}

/**
 * What a write to the store changed. An object that was created again (another uid) gives `deleted`, then `added`.
 * `isLastState`: the cluster has said what the deleted object was at its end; otherwise it is as it was last seen.
 */
export type StoreChange<T> =
  | { type: 'added'; key: string; object: T; previous?: undefined }
  | { type: 'updated'; key: string; object: T; previous: T }
  | { type: 'deleted'; key: string; object: T; previous?: undefined; isLastState?: boolean };

interface Entry<T> {
  object: T;
  /** Kept, because a caller may have changed the object, against the rule, and its indexes would give other values. */
  places: readonly (readonly [indexName: string, value: string])[];
}

const namespaceIndex = 'namespace';

/** Callers share the objects in the store: treat them as read-only. */
export class ObjectStore<T extends KubeObject> {
  readonly #entries = new Map<string, Entry<T>>();
  readonly #indexes = new Map<string, StoreIndex<T>>();
  readonly #places = new Map<string, Map<string, Set<string>>>();

  constructor(options: ObjectStoreOptions<T> = {}) {
    this.#indexes.set(namespaceIndex, (object) => [object.metadata.namespace ?? '']);
    for (const [name, index] of Object.entries(options.indexes ?? {})) this.#indexes.set(name, index);
    for (const name of this.#indexes.keys()) this.#places.set(name, new Map());
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): T | undefined {
    return this.#entries.get(key)?.object;
  }

  keys(): IterableIterator<string> {
    return this.#entries.keys();
  }

  *values(): Generator<T> {
    for (const entry of this.#entries.values()) yield entry.object;
  }

  /** The keys of the objects in a namespace, in no particular order. */
  keysInNamespace(namespace: string): string[] {
    return [...(this.#places.get(namespaceIndex)?.get(namespace) ?? [])];
  }

  /** The objects in a namespace, in no particular order. */
  listInNamespace(namespace: string): T[] {
    return this.listBy(namespaceIndex, namespace);
  }

  /** The objects under `value` of an index, in no particular order. Throws a RangeError for an unknown index. */
  listBy(indexName: string, value: string): T[] {
    const places = this.#places.get(indexName);
    if (places === undefined) throw new RangeError(`The store has no index ${indexName}.`);
    const found: T[] = [];
    for (const key of places.get(value) ?? []) {
      const object = this.get(key);
      if (object !== undefined) found.push(object);
    }
    return found;
  }

  /** True if an index has an object under any value. */
  hasAny(indexName: string): boolean {
    return (this.#places.get(indexName)?.size ?? 0) > 0;
  }

  /** Stores an object. Returns no change if the store already has this version. */
  put(object: T): StoreChange<T>[] {
    const key = objectKey(object);
    const previous = this.get(key);
    if (previous !== undefined && isSameVersion(previous, object)) return [];
    this.#drop(key);
    this.#add(key, object);
    if (previous === undefined) return [{ type: 'added', key, object }];
    if (previous.metadata.uid === object.metadata.uid) return [{ type: 'updated', key, object, previous }];
    return [
      { type: 'deleted', key, object: previous },
      { type: 'added', key, object },
    ];
  }

  /** Removes an object. Returns no change if the store does not have it. `last`: its last state, if that is known. */
  remove(key: string, last?: T): StoreChange<T>[] {
    const known = this.get(key);
    if (known === undefined) return [];
    this.#drop(key);
    if (last?.metadata.uid !== known.metadata.uid) return [{ type: 'deleted', key, object: known }];
    return [{ type: 'deleted', key, object: last ?? known, isLastState: true }];
  }

  #add(key: string, object: T): void {
    const places: [string, string][] = [];
    for (const [name, index] of this.#indexes) {
      for (const value of index(object)) {
        places.push([name, value]);
        this.#keysAt(name, value).add(key);
      }
    }
    this.#entries.set(key, { object, places });
  }

  #drop(key: string): void {
    for (const [name, value] of this.#entries.get(key)?.places ?? []) {
      const keys = this.#keysAt(name, value);
      keys.delete(key);
      if (keys.size === 0) this.#places.get(name)?.delete(value);
    }
    this.#entries.delete(key);
  }

  #keysAt(name: string, value: string): Set<string> {
    const values = this.#places.get(name) ?? new Map<string, Set<string>>();
    this.#places.set(name, values);
    const keys = values.get(value) ?? new Set<string>();
    values.set(value, keys);
    return keys;
  }
}

function isSameVersion(a: KubeObject, b: KubeObject): boolean {
  const { uid, resourceVersion } = a.metadata;
  return (
    resourceVersion !== undefined && uid === b.metadata.uid && resourceVersion === b.metadata.resourceVersion
  );
}
