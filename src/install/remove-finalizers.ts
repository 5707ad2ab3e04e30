// Takes our finalizer off every object of ours, so that nothing hangs after the operator is uninstalled.
// A pre-delete hook of the chart runs it. Monitors and endpoints themselves stay as they are.
import { CUSTOM_RESOURCES, FINALIZER } from '../contract/crd/custom-resources.ts';
import { removeFinalizer } from '../kube/finalizers.ts';
import { isNotFound } from '../kube/kube-error.ts';
import { hasFinalizer, type KubeResource } from '../kube/kube-object.ts';
import type { Cluster } from './apply-manifests.ts';

/**
 * Looks in `namespaces`, or in all of them when the list is empty. Returns from how many objects it was taken;
 * a kind that the cluster does not have is none. Throws KubeError.
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
