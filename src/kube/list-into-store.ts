// Makes a store equal to a complete list, page by page: memory holds one page besides the cache.

import { isExpired } from './kube-error.ts';
import { type KubeList, type KubeObject, objectKey, withoutManagedFields } from './kube-object.ts';
import type { ObjectStore, StoreChange } from './object-store.ts';

export interface ListIntoStore<T extends KubeObject> {
  store: ObjectStore<T>;
  /** The namespace that the list covers; objects of other namespaces stay. Undefined: the list covers everything. */
  namespace: string | undefined;
  pageSize: number;
  fetchPage: (page: { limit?: number; continue?: string }) => Promise<KubeList<T>>;
  /** Called after each page, before its changes. It may throw to stop. */
  onHeard: () => void;
  onChange: (change: StoreChange<T>) => void;
}

/**
 * Returns the resourceVersion to watch from. Throws what `fetchPage` throws; the store then has a part of the list and
 * has lost nothing, and the next complete list makes it right.
 */
export async function listIntoStore<T extends KubeObject>(options: ListIntoStore<T>): Promise<string> {
  const seen = new Set<string>();
  let page = await options.fetchPage({ limit: options.pageSize });
  for (;;) {
    options.onHeard();
    for (const item of page.items) {
      const object = withoutManagedFields(item);
      seen.add(objectKey(object));
      notify(options, options.store.put(object));
    }
    const token = page.metadata.continue;
    if (token === undefined || token === '') break;
    const next = await fetchNext(options, token);
    // The earlier pages are of an older version: objects on them may be gone.
    if (next === undefined) seen.clear();
    page = next ?? (await options.fetchPage({}));
  }
  removeUnseen(options, seen);
  const version = page.metadata.resourceVersion;
  if (version === undefined || version === '') throw new TypeError('The list has no resourceVersion.');
  return version;
}

/** Returns undefined if the token has expired, after minutes: only a list in one answer is then sure to complete. */
async function fetchNext<T extends KubeObject>(
  options: ListIntoStore<T>,
  token: string,
): Promise<KubeList<T> | undefined> {
  try {
    return await options.fetchPage({ limit: options.pageSize, continue: token });
  } catch (error) {
    if (isExpired(error)) return undefined;
    throw error;
  }
}

function removeUnseen<T extends KubeObject>(options: ListIntoStore<T>, seen: Set<string>): void {
  const { store, namespace } = options;
  const covered = namespace === undefined ? [...store.keys()] : store.keysInNamespace(namespace);
  for (const key of covered) {
    if (!seen.has(key)) notify(options, store.remove(key));
  }
}

function notify<T extends KubeObject>(options: ListIntoStore<T>, changes: StoreChange<T>[]): void {
  for (const change of changes) options.onChange(change);
}
