// A connection to the cluster for one-shot commands and for development.
import { KubeClient } from '../kube/kube-client.ts';
import { KubeTransport } from '../kube/kube-transport.ts';
import { loadKubeConfig } from '../kube/load-kube-config.ts';
import type { Cluster } from './apply-manifests.ts';

/** `kubeconfig` is a file; without it the pod's own service account is used. Close `transport` in the end. */
export function connectCluster(kubeconfig: string | undefined): Cluster {
  const loadConfig = () => loadKubeConfig(kubeconfig);
  const transport = new KubeTransport({ loadConfig, userAgent: 'beatkeeper-setup/1' });
  return { transport, client: new KubeClient(transport) };
}
