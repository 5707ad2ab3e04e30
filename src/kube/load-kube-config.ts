// Finds the cluster: a kubeconfig file, or the service account of the pod that this process runs in.

import { KubeConfig } from '@kubernetes/client-node';

/**
 * Reads the kubeconfig file at `path`, or without `path` the pod's service account.
 * Throws if the file is missing or broken, or if there is neither a file nor a service account.
 */
export function loadKubeConfig(path?: string): KubeConfig {
  const config = new KubeConfig();
  if (path !== undefined && path !== '') {
    config.loadFromFile(path);
    return config;
  }
  if (process.env.KUBERNETES_SERVICE_HOST === undefined) {
    throw new Error('No cluster is configured: set KUBECONFIG to a kubeconfig file, or run in a pod.');
  }
  config.loadFromCluster();
  return config;
}
