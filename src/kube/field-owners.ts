// Gives the fields of an object up, so that the next who applies other values without force meets no conflict.

import type { KubeClient } from './kube-client.ts';
import { isConflict, isNotFound } from './kube-error.ts';
import type { KubeObject, KubeResource, ObjectRef } from './kube-object.ts';

const maxTries = 5;

/** An entry of `metadata.managedFields`. */
export interface FieldOwner {
  manager?: string;
  operation?: 'Apply' | 'Update';
  subresource?: string;
}

/**
 * Removes the owners of the object's fields for which `isDropped` is true; by default all but those of its subresources.
 * Does nothing if the object is gone. One owner has to stay: of an object without any, the API server holds that somebody
 * owns every field. Throws KubeError.
 */
export async function disownFields(
  client: KubeClient,
  resource: KubeResource,
  ref: ObjectRef,
  isDropped: (owner: FieldOwner) => boolean = ({ subresource }) => subresource === undefined,
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const object: KubeObject | undefined = await client.find(resource, ref);
    const owners = (object?.metadata.managedFields ?? []) as FieldOwner[];
    const managedFields = owners.filter((owner) => !isDropped(owner));
    if (managedFields.length === 0 || managedFields.length === owners.length) return;
    const { uid, resourceVersion } = object?.metadata ?? {};
    try {
      await client.mergePatch(resource, ref, { metadata: { uid, resourceVersion, managedFields } });
      return;
    } catch (error) {
      if (isNotFound(error)) return;
      if (!isConflict(error) || tries >= maxTries) throw error;
    }
  }
}
