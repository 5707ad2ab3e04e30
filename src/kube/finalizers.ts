// Adds and removes a finalizer by a patch that is guarded by uid and resourceVersion.

import type { KubeClient } from './kube-client.ts';
import type { KubeObject, KubeResource } from './kube-object.ts';

export function hasFinalizer(object: KubeObject, finalizer: string): boolean {
  return object.metadata.finalizers?.includes(finalizer) ?? false;
}

/**
 * Returns the object with the finalizer; sends nothing if it is there. Reads again on a conflict.
 * Throws KubeError: 404 if it is gone, 409 if it was made again or is being deleted.
 */
export function addFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  object: T,
  finalizer: string,
): Promise<T> {
  throw new Error(`not written yet: ${client} ${resource.kind} ${object.kind} ${finalizer}`);
}

/** Takes the finalizer off. Fine if it, or this very object, is gone. Reads again on a conflict. */
export function removeFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  object: T,
  finalizer: string,
): Promise<void> {
  throw new Error(`not written yet: ${client} ${resource.kind} ${object.kind} ${finalizer}`);
}
