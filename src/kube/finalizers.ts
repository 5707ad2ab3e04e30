// Removes a finalizer by a patch that uid and resourceVersion guard.

import type { KubeClient } from './kube-client.ts';
import { isConflict, isNotFound } from './kube-error.ts';
import { hasFinalizer, type KubeObject, type KubeResource } from './kube-object.ts';

const maxTries = 5;

/**
 * Removes `finalizer` from `object`; does nothing if the finalizer or the object is already gone. Reads the object
 * again after a conflict. Throws KubeError.
 */
export async function removeFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  object: T,
  finalizer: string,
): Promise<void> {
  if (!hasFinalizer(object, finalizer)) return;
  try {
    await removeByPatch(client, resource, object, finalizer);
  } catch (error) {
    if (isNotFound(error)) return;
    if (isConflict(error) && (await isReplaced(client, resource, object))) return;
    throw error;
  }
}

/** A merge patch replaces the whole list: without the guard it could remove another controller's finalizer. */
async function removeByPatch<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  object: T,
  finalizer: string,
): Promise<void> {
  let latest = object;
  for (let tries = 1; hasFinalizer(latest, finalizer); tries += 1) {
    const { uid, resourceVersion } = latest.metadata;
    const finalizers = latest.metadata.finalizers?.filter((name) => name !== finalizer);
    try {
      await client.mergePatch(resource, latest.metadata, { metadata: { uid, resourceVersion, finalizers } });
      return;
    } catch (error) {
      if (!isConflict(error) || tries >= maxTries) throw error;
      latest = await client.get(resource, object.metadata);
      if (latest.metadata.uid !== object.metadata.uid) throw error;
    }
  }
}

/** True if the object is gone, or another one has its name. */
async function isReplaced(client: KubeClient, resource: KubeResource, object: KubeObject): Promise<boolean> {
  const latest = await client.find(resource, object.metadata);
  return latest === undefined || latest.metadata.uid !== object.metadata.uid;
}
