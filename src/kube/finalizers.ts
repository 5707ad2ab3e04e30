// Takes a finalizer off by a patch that is guarded by uid and resourceVersion.

import type { KubeClient } from './kube-client.ts';
import { isConflict, isNotFound } from './kube-error.ts';
import { hasFinalizer, type KubeObject, type KubeResource } from './kube-object.ts';

const maxTries = 5;

/** Fine if the finalizer, or this very object, is gone. Reads again on a conflict. Throws KubeError. */
export async function removeFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  object: T,
  finalizer: string,
): Promise<void> {
  if (!hasFinalizer(object, finalizer)) return;
  try {
    await patchAway(client, resource, object, finalizer);
  } catch (error) {
    if (isNotFound(error)) return;
    if (isConflict(error) && (await isMadeAgain(client, resource, object))) return;
    throw error;
  }
}

/** A merge patch replaces the whole list: without the guard another's finalizer could be lost. */
async function patchAway<T extends KubeObject>(
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

async function isMadeAgain(client: KubeClient, resource: KubeResource, object: KubeObject): Promise<boolean> {
  const latest = await client.find(resource, object.metadata);
  return latest === undefined || latest.metadata.uid !== object.metadata.uid;
}
