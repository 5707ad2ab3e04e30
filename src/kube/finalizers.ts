// Adds and removes a finalizer by a patch that is guarded by uid and resourceVersion.

import type { KubeClient } from './kube-client.ts';
import { isConflict, isNotFound } from './kube-error.ts';
import type { KubeObject, KubeResource } from './kube-object.ts';

const maxTries = 5;

export function hasFinalizer(object: KubeObject, finalizer: string): boolean {
  return object.metadata.finalizers?.includes(finalizer) ?? false;
}

/**
 * Returns the object with the finalizer; sends nothing if it is there. Reads again on a conflict.
 * Throws KubeError: 404 if it is gone, 409 if it was made again; 403 or 422 if it is being deleted.
 */
export async function addFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  object: T,
  finalizer: string,
): Promise<T> {
  if (hasFinalizer(object, finalizer)) return object;
  return patchFinalizers(client, resource, object, (present) =>
    present.includes(finalizer) ? present : [...present, finalizer],
  );
}

/** Takes the finalizer off. Fine if it, or this very object, is gone. Reads again on a conflict. */
export async function removeFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  object: T,
  finalizer: string,
): Promise<void> {
  if (!hasFinalizer(object, finalizer)) return;
  try {
    await patchFinalizers(client, resource, object, (present) =>
      present.filter((name) => name !== finalizer),
    );
  } catch (error) {
    if (isNotFound(error)) return;
    if (isConflict(error) && (await isMadeAgain(client, resource, object))) return;
    throw error;
  }
}

/** A merge patch replaces the whole list: without the guard another's finalizer could be lost. */
async function patchFinalizers<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  object: T,
  change: (present: string[]) => string[],
): Promise<T> {
  let latest = object;
  for (let tries = 1; ; tries += 1) {
    const { uid, resourceVersion, finalizers = [] } = latest.metadata;
    const changed = change(finalizers);
    if (changed.length === finalizers.length) return latest;
    try {
      const patch = { metadata: { uid, resourceVersion, finalizers: changed } };
      return await client.mergePatch(resource, latest.metadata, patch);
    } catch (error) {
      if (!isConflict(error) || tries >= maxTries) throw error;
      latest = await client.get(resource, object.metadata);
      if (latest.metadata.uid !== object.metadata.uid) throw error;
    }
  }
}

async function isMadeAgain(client: KubeClient, resource: KubeResource, object: KubeObject): Promise<boolean> {
  const latest = await client.find(resource, object.metadata);
  return latest === undefined || latest.metadata.uid !== object.metadata.uid;
}
