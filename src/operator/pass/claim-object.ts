// Marks an object as ours before anything is made for it: finalizer and id in one guarded patch.
import { FINALIZER } from '../../contract/crd/custom-resources.ts';
import type { KubeClient } from '../../kube/kube-client.ts';
import { hasFinalizer, type KubeObject, type KubeResource } from '../../kube/kube-object.ts';

export interface ObjectMark {
  annotation: string;
  id: string;
}

/** The object with both; sends nothing if they are there. Throws KubeError: a conflict if it has moved on. */
export async function claimObject<T extends KubeObject>(
  kube: KubeClient,
  resource: KubeResource<T>,
  object: T,
  { annotation, id }: ObjectMark,
): Promise<T> {
  const { uid, resourceVersion, finalizers = [], annotations } = object.metadata;
  const isHeld = hasFinalizer(object, FINALIZER);
  if (isHeld && annotations?.[annotation] === id) return object;
  const patch = {
    metadata: {
      uid,
      resourceVersion,
      finalizers: isHeld ? finalizers : [...finalizers, FINALIZER],
      annotations: { [annotation]: id },
    },
  };
  return await kube.mergePatch(resource, object.metadata, patch);
}
