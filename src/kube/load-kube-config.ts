// Finds the cluster: a kubeconfig file, or the service account of the pod that we run in.

import { KubeConfig } from '@kubernetes/client-node';

/**
 * The configuration of `path`, else of the pod's service account.
 * Throws if the file is missing or broken, or if neither is there.
 */
export function loadKubeConfig(path?: string): KubeConfig {
  const config = new KubeConfig();
  if (path !== undefined && path !== '') {
    config.loadFromFile(path);
    return config;
  }
  if (process.env.KUBERNETES_SERVICE_HOST === undefined) {
    throw new Error('No cluster: set KUBECONFIG to a kubeconfig file, or run in a pod.');
  }
  config.loadFromCluster();
  return config;
}
