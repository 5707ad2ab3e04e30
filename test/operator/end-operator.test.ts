// The end of an operator before an uninstall: which pods it waits for, and when it deletes the Lease.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { endOperator } from '../../src/install/end-operator.ts';
import { KubeClient } from '../../src/kube/kube-client.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { type KubeRequest, KubeTransport } from '../../src/kube/kube-transport.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { adminKubeconfig, createNamespace, hasCluster } from '../kube/cluster.ts';

interface Pod extends KubeObject {
  spec?: object;
  status?: { phase: string };
}

const PODS: KubeResource<Pod> = { apiVersion: 'v1', kind: 'Pod', plural: 'pods', namespaced: true };
const ACCOUNTS: KubeResource = {
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  plural: 'serviceaccounts',
  namespaced: true,
};
const LEASES: KubeResource<KubeObject & { spec?: object }> = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
};
const NAME = 'release-operator';
const log = createLog({ role: 'finalizers', level: 'silent' });

/** Calls `beforePods` before each list of pods. */
class Watched extends KubeTransport {
  beforePods = async (): Promise<unknown> => undefined;

  override async request(request: KubeRequest): Promise<unknown> {
    if (request.method === 'GET' && request.path.endsWith('/pods')) await this.beforePods();
    return await super.request(request);
  }
}

describe.skipIf(!hasCluster)('an operator is ended before its release is uninstalled', () => {
  let transport: Watched;
  let client: KubeClient;
  let lease: { namespace: string; name: string };
  beforeAll(() => {
    const loadConfig = () => loadKubeConfig(adminKubeconfig);
    transport = new Watched({ loadConfig, userAgent: 'beatkeeper-setup/test' });
    client = new KubeClient(transport);
  });
  beforeEach(async () => {
    const namespace = await createNamespace(client);
    lease = { namespace, name: NAME };
    await client.create(ACCOUNTS, { metadata: { namespace, name: 'default' } });
    await client.create(LEASES, { metadata: lease, spec: { holderIdentity: 'operator_1' } });
  });
  afterAll(() => transport.close());

  /** Resolves to whether the Lease is gone. */
  async function end(limitMs: number): Promise<boolean> {
    const operator = { operatorDeployment: NAME, operatorSelector: 'app=operator', leaseName: NAME };
    await endOperator({ client, transport }, { namespace: lease.namespace, ...operator }, log, limitMs);
    return (await client.find(LEASES, lease)) === undefined;
  }

  async function createPod(name: string, phase: string): Promise<void> {
    const metadata = { namespace: lease.namespace, name, labels: { app: 'operator' } };
    const spec = { containers: [{ name: 'operator', image: 'none' }] };
    const pod = await client.create(PODS, { metadata, spec });
    await client.mergePatch(PODS, pod.metadata, { status: { phase } }, { subresource: 'status' });
  }

  it('pods that were evicted or have ended, which nobody deletes, are not waited for', async () => {
    await createPod('evicted', 'Failed');
    await createPod('ended', 'Succeeded');
    expect(await end(Number.POSITIVE_INFINITY)).toBe(true);
  });

  it('the Lease goes also beside a pod that never ends, such as that of a lost node', async () => {
    await createPod('lost', 'Running');
    expect(await end(20)).toBe(true);
  });

  it('a Lease that is still renewed stays', async () => {
    await createPod('running', 'Running');
    let leaseTransitions = 0;
    transport.beforePods = async () => {
      leaseTransitions += 1;
      return await client.mergePatch(LEASES, lease, { spec: { leaseTransitions } });
    };
    expect(await end(20)).toBe(false);
    expect(leaseTransitions).toBeGreaterThan(1);
  });
});
