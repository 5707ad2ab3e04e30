// Removes the operator's finalizer from every Monitor and Callback, so that they can be deleted after an uninstall.
// A pre-delete hook of the chart runs it. The monitors and endpoints in the API stay as they are.
import { CUSTOM_RESOURCES, FINALIZER } from '../contract/crd/custom-resources.ts';
import { removeFinalizer } from '../kube/finalizers.ts';
import { isNotFound } from '../kube/kube-error.ts';
import { hasFinalizer, type KubeResource } from '../kube/kube-object.ts';
import type { Cluster } from './apply-manifests.ts';

/**
 * Searches `namespaces`, or all of them if the list is empty. Skips kinds that the cluster does not have. Returns the
 * number of changed objects. Throws KubeError.
 */
export async function removeFinalizers(cluster: Cluster, namespaces: readonly string[]): Promise<number> {
  let count = 0;
  for (const namespace of namespaces.length > 0 ? namespaces : [undefined]) {
    for (const resource of Object.values(CUSTOM_RESOURCES))
      count += await removeFrom(cluster, resource, namespace);
  }
  return count;
}

async function removeFrom({ client }: Cluster, resource: KubeResource, namespace?: string): Promise<number> {
  let count = 0;
  try {
    for await (const object of client.listAll(resource, { namespace })) {
      if (!hasFinalizer(object, FINALIZER)) continue;
      await removeFinalizer(client, resource, object, FINALIZER);
      count += 1;
    }
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  return count;
}
