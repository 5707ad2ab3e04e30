import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Cluster } from '../../src/install/apply-manifests.ts';
import { connectCluster } from '../../src/install/connect-cluster.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { adminKubeconfig, hasCluster } from '../kube/cluster.ts';
import { runRole } from '../support/run-program.ts';

const MONITORS: KubeResource<KubeObject & { spec?: object }> = {
  apiVersion: 'beatkeeper.dev/v1alpha1',
  kind: 'Monitor',
  plural: 'monitors',
  namespaced: true,
};
const DEPLOYMENTS: KubeResource<KubeObject & { spec?: { replicas: number; [field: string]: unknown } }> = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  plural: 'deployments',
  namespaced: true,
};
const LEASES: KubeResource = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
};
const FINALIZER = 'beatkeeper.dev/sync';

describe.skipIf(!hasCluster)('the commands of the hooks', () => {
  let cluster: Cluster;
  const env = { KUBECONFIG: adminKubeconfig };

  beforeAll(() => {
    cluster = connectCluster(env.KUBECONFIG);
  });
  afterAll(() => cluster.transport.close());

  test('crds applies the definitions each time that it runs', async () => {
    for (let run = 1; run <= 2; run += 1) {
      const { code, stdout, stderr } = await runRole(['crds'], env);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toContain('monitors.beatkeeper.dev');
    }
  });

  test('finalizers removes our finalizer from every object, and no finalizer of others', async () => {
    const name = 'held';
    const finalizers = [FINALIZER, 'example.org/other'];
    const metadata = { name, namespace: 'default', finalizers };
    await cluster.client.create(MONITORS, { metadata, spec: { intervalSeconds: 60 } });
    const { code, stderr } = await runRole(['finalizers'], env);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { metadata: after } = await cluster.client.get(MONITORS, { namespace: 'default', name });
    expect(after.finalizers).toEqual(['example.org/other']);
    await cluster.client.mergePatch(
      MONITORS,
      { namespace: 'default', name },
      { metadata: { finalizers: null } },
    );
    await cluster.client.delete(MONITORS, { namespace: 'default', name });
  });

  test('finalizers first ends the operator, which would add them again, and its Lease', async () => {
    const labels = { app: 'operator-of-a-release' };
    const ref = { namespace: 'default', name: 'release-operator' };
    await cluster.client.create(LEASES, { metadata: ref });
    const template = { metadata: { labels }, spec: { containers: [{ name: 'operator', image: 'none' }] } };
    await cluster.client.create(DEPLOYMENTS, {
      metadata: ref,
      spec: { replicas: 2, selector: { matchLabels: labels }, template },
    });
    const { code, stderr } = await runRole(['finalizers'], {
      ...env,
      POD_NAMESPACE: ref.namespace,
      BEATKEEPER_OPERATOR_DEPLOYMENT: ref.name,
      BEATKEEPER_OPERATOR_SELECTOR: 'app=operator-of-a-release',
      BEATKEEPER_LEASE_NAME: ref.name,
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect((await cluster.client.get(DEPLOYMENTS, ref)).spec?.replicas).toBe(0);
    expect(await cluster.client.find(LEASES, ref)).toBeUndefined();
    await cluster.client.delete(DEPLOYMENTS, ref);
  });

  test('a missing kubeconfig is reported in one sentence', async () => {
    const { code, stderr } = await runRole(['crds'], { KUBECONFIG: '/nowhere/kubeconfig' });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^beatkeeper crds: .*\n$/);
  });
});
