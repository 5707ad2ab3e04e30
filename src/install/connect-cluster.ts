// Connects one-shot commands and `npm run dev` to the cluster.
import { KubeClient } from '../kube/kube-client.ts';
import { KubeTransport } from '../kube/kube-transport.ts';
import { loadKubeConfig } from '../kube/load-kube-config.ts';
import type { Cluster } from './apply-manifests.ts';

/** Uses the file `kubeconfig`, or without it the pod's own service account. The caller closes `transport`. */
export function connectCluster(kubeconfig: string | undefined): Cluster {
  const loadConfig = () => loadKubeConfig(kubeconfig);
  const transport = new KubeTransport({ loadConfig, userAgent: 'beatkeeper-setup/1' });
  return { transport, client: new KubeClient(transport) };
}
