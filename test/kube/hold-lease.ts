// A process that takes a Lease and holds it until it is killed, or, on SIGTERM, ends and releases it.
// Arguments: kubeconfig, namespace, lease. Prints "elected" when it leads.

import { KubeClient } from '../../src/kube/kube-client.ts';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { createLeaseIdentity, LeaseElector } from '../../src/kube/lease-elector.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';

const [kubeconfig, namespace = '', name = ''] = process.argv.slice(2);
const transport = new KubeTransport({
  loadConfig: () => loadKubeConfig(kubeconfig),
  userAgent: 'hold-lease/1',
});
const elector = new LeaseElector({
  client: new KubeClient(transport),
  lease: { namespace, name },
  identity: createLeaseIdentity(),
  onElected: () => process.stdout.write('elected\n'),
  onLost: () => process.exit(1),
});
process.once('SIGTERM', () => {
  void elector
    .stop()
    .then(() => transport.close())
    .then(() => process.exit(0));
});
elector.start();
