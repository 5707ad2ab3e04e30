// Ends the operator of a release before its finalizers are removed: a running operator would add them again.
import { setTimeout as delay } from 'node:timers/promises';
import { isForbidden, isNotFound } from '../kube/kube-error.ts';
import type { KubeResource, ObjectRef } from '../kube/kube-object.ts';
import type { Log } from '../telemetry/log.ts';
import type { Cluster } from './apply-manifests.ts';

const PODS: KubeResource = { apiVersion: 'v1', kind: 'Pod', plural: 'pods', namespaced: true };
const LEASES: KubeResource = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
};
const LIMIT_MS = 60_000;

export interface OperatorPlace {
  namespace: string;
  /** Without it `endOperator` does nothing. */
  operatorDeployment?: string | undefined;
  /** Labels of its pods. Without them `endOperator` does not wait for the pods. */
  operatorSelector?: string | undefined;
  /** Its Lease, which is deleted when the pods are gone. */
  leaseName?: string | undefined;
}

/** Scales the Deployment to 0 and waits a minute at most until its pods are gone. Throws KubeError. */
export async function endOperator(cluster: Cluster, place: OperatorPlace, log: Log): Promise<void> {
  const { namespace, operatorDeployment, operatorSelector } = place;
  if (operatorDeployment === undefined) return;
  await scaleToNothing(cluster, { namespace, name: operatorDeployment });
  if (operatorSelector === undefined) return;
  for (const deadline = performance.now() + LIMIT_MS; performance.now() < deadline; await delay(500)) {
    const { items } = await cluster.client.list(PODS, { namespace, labelSelector: operatorSelector });
    if (items.length === 0) return await deleteLease(cluster, place, log);
  }
  log.warn({ operatorSelector }, 'The operator has not ended within a minute; continuing without it.');
}

async function scaleToNothing(
  { transport }: Cluster,
  { namespace, name }: Required<ObjectRef>,
): Promise<void> {
  const path = `/apis/apps/v1/namespaces/${namespace}/deployments/${name}/scale`;
  const body = { spec: { replicas: 0 } };
  try {
    await transport.request({ method: 'PATCH', path, contentType: 'application/merge-patch+json', body });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

async function deleteLease(
  { client }: Cluster,
  { namespace, leaseName }: OperatorPlace,
  log: Log,
): Promise<void> {
  if (leaseName === undefined) return;
  try {
    await client.delete(LEASES, { namespace, name: leaseName });
  } catch (error) {
    if (!isForbidden(error)) throw error;
    log.warn({ leaseName, err: error }, 'Could not delete the Lease of the operator.');
  }
}
