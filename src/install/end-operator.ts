// Ends the operator of a release before its finalizers are removed: a running operator would add them again.
import { setTimeout as delay } from 'node:timers/promises';
import { isConflict, isForbidden, isNotFound } from '../kube/kube-error.ts';
import type { KubeObject, KubeResource, ObjectRef } from '../kube/kube-object.ts';
import type { Log } from '../telemetry/log.ts';
import type { Cluster } from './apply-manifests.ts';

interface Pod extends KubeObject {
  status?: { phase?: string };
}

const PODS: KubeResource<Pod> = { apiVersion: 'v1', kind: 'Pod', plural: 'pods', namespaced: true };
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

/**
 * Scales the Deployment to 0 and waits, a minute at most, until none of its pods runs. Then it deletes the Lease; without
 * such an end only a Lease that nobody has renewed for half of that time. Throws KubeError.
 */
export async function endOperator(
  cluster: Cluster,
  place: OperatorPlace,
  log: Log,
  limitMs = LIMIT_MS,
): Promise<void> {
  const { namespace, operatorDeployment, operatorSelector } = place;
  if (operatorDeployment === undefined) return;
  await scaleToNothing(cluster, { namespace, name: operatorDeployment });
  if (operatorSelector === undefined) return;
  if (await endsWithin(cluster, place, limitMs / 2)) return await deleteLease(cluster, place, log);
  const halfway = await leaseVersion(cluster, place);
  if (await endsWithin(cluster, place, limitMs / 2)) return await deleteLease(cluster, place, log);
  log.warn({ operatorSelector }, 'The operator has not ended within a minute; continuing without it.');
  // A pod of a lost node never ends. By version, and not by time: the leader's clock may be another one.
  if (halfway !== undefined) await deleteLease(cluster, place, log, halfway);
}

async function endsWithin(
  { client }: Cluster,
  { namespace, operatorSelector }: OperatorPlace,
  limitMs: number,
): Promise<boolean> {
  for (const deadline = performance.now() + limitMs; performance.now() < deadline; await delay(500)) {
    const { items } = await client.list(PODS, { namespace, labelSelector: operatorSelector });
    if (items.every(hasEnded)) return true;
  }
  return false;
}

/** An evicted pod stays in the list until somebody deletes it. */
function hasEnded({ status }: Pod): boolean {
  return status?.phase === 'Failed' || status?.phase === 'Succeeded';
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

/** Undefined: there is none, or this account may not read it. Each renewal changes it. */
async function leaseVersion(
  { client }: Cluster,
  { namespace, leaseName }: OperatorPlace,
): Promise<string | undefined> {
  if (leaseName === undefined) return undefined;
  try {
    return (await client.find(LEASES, { namespace, name: leaseName }))?.metadata.resourceVersion;
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return undefined;
  }
}

/** With `resourceVersion`: only if it still has that one. */
async function deleteLease(
  { client }: Cluster,
  { namespace, leaseName }: OperatorPlace,
  log: Log,
  resourceVersion?: string,
): Promise<void> {
  if (leaseName === undefined) return;
  try {
    await client.delete(LEASES, { namespace, name: leaseName }, { resourceVersion });
  } catch (error) {
    if (!isForbidden(error) && !isConflict(error)) throw error;
    log.warn({ leaseName, err: error }, 'Did not delete the Lease of the operator.');
  }
}
