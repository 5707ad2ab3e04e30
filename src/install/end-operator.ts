// Ends the operator of a release before its finalizers are removed: a running operator would add them again.
import { setTimeout as delay } from 'node:timers/promises';
import { isNotFound } from '../kube/kube-error.ts';
import type { KubeResource } from '../kube/kube-object.ts';
import type { Log } from '../telemetry/log.ts';
import type { Cluster } from './apply-manifests.ts';

const PODS: KubeResource = { apiVersion: 'v1', kind: 'Pod', plural: 'pods', namespaced: true };
const LIMIT_MS = 60_000;

export interface OperatorPlace {
  namespace: string;
  /** Without it `endOperator` does nothing. */
  operatorDeployment?: string | undefined;
  /** Labels of its pods. Without them `endOperator` does not wait for the pods. */
  operatorSelector?: string | undefined;
}

/** Scales the Deployment to 0 and waits a minute at most until its pods are gone. Throws KubeError. */
export async function endOperator(cluster: Cluster, place: OperatorPlace, log: Log): Promise<void> {
  const { namespace, operatorDeployment, operatorSelector } = place;
  if (operatorDeployment === undefined) return;
  try {
    await cluster.transport.request({
      method: 'PATCH',
      path: `/apis/apps/v1/namespaces/${namespace}/deployments/${operatorDeployment}/scale`,
      contentType: 'application/merge-patch+json',
      body: { spec: { replicas: 0 } },
    });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  if (operatorSelector === undefined) return;
  for (const deadline = performance.now() + LIMIT_MS; performance.now() < deadline; await delay(500)) {
    const { items } = await cluster.client.list(PODS, { namespace, labelSelector: operatorSelector });
    if (items.length === 0) return;
  }
  log.warn({ operatorSelector }, 'The operator has not ended within a minute; continuing without it.');
}
