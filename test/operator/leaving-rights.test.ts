// The hook of an uninstall, as the chart starts it: its arguments and its environment, with the rights of its account.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyManifest } from '../../src/install/apply-manifests.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { type Manifest, NAMESPACE, pick, render, requireHelm } from '../chart/helm.ts';
import { adminKubeconfig, connect, createNamespace, hasCluster, type TestClient } from '../kube/cluster.ts';
import { runRole } from '../support/run-program.ts';

interface Job {
  spec: {
    template: {
      spec: {
        serviceAccountName: string;
        containers: { args: string[]; env: { name: string; value?: string }[] }[];
      };
    };
  };
}

const LEASES: KubeResource = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
};
const OPERATOR = { namespace: NAMESPACE, name: 'beatkeeper-operator' };
const FINALIZER = 'beatkeeper.dev/sync';
const ACCOUNT = 'beatkeeper-finalizers';

const helm = hasCluster ? await requireHelm() : undefined;

describe.skipIf(helm === undefined)('the hook of an uninstall', () => {
  let test: TestClient;
  let folder: string;
  beforeAll(async () => {
    test = connect();
    folder = await mkdtemp(join(tmpdir(), 'beatkeeper-hook-'));
  });
  afterAll(async () => {
    await test.close();
    await rm(folder, { recursive: true });
  });

  it('ends the operator and releases its objects with the rights of the chart, also after a watched namespace has closed', async () => {
    const [watched, closed] = [await createNamespace(test.client), await createNamespace(test.client)];
    const manifests = await render(helm ?? '', { operator: { watchNamespaces: [closed, watched] } });
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } };
    const isPart = ({ kind, metadata }: KubeObject) =>
      /^(Role|RoleBinding|ServiceAccount|Deployment)$/.test(kind ?? '') &&
      /operator$|finalizers/.test(metadata.name) &&
      metadata.namespace !== closed;
    for (const object of [namespace, ...manifests.filter(isPart)])
      await applyManifest(test, object, { namespace: NAMESPACE, force: true });
    await test.client.apply(LEASES, { metadata: OPERATOR }, { fieldManager: 'test' });
    const object = await test.client.create(MONITORS, {
      metadata: { name: 'backup', namespace: watched, finalizers: [FINALIZER] },
      spec: { intervalSeconds: 60 } as never,
    });

    const { code, stdout, stderr } = await runHook(manifests);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain(closed);

    const { metadata } = await test.client.get(MONITORS, object.metadata);
    expect(metadata.finalizers).toBeUndefined();
    expect(await test.client.find(LEASES, OPERATOR)).toBeUndefined();
    const deployments = {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      plural: 'deployments',
      namespaced: true,
    };
    expect(await test.client.get(deployments, OPERATOR)).toMatchObject({ spec: { replicas: 0 } });
  });

  it('ends well where an install failed before it made an object: what is left is what the hook itself brings', async () => {
    for (const values of [{}, { operator: { watchNamespaces: [await createNamespace(test.client)] } }]) {
      const manifests = await render(helm ?? '', values);
      const isOfHook = ({ kind, metadata }: KubeObject) =>
        kind !== 'Job' && metadata.annotations?.['helm.sh/hook'] === 'pre-delete';
      const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } };
      for (const object of [namespace, ...manifests.filter(isOfHook)])
        await applyManifest(test, object, { namespace: NAMESPACE, force: true });
      const { spec } = pick(manifests, 'Job', 'beatkeeper-finalizers') as unknown as Job;
      expect(spec.template.spec.serviceAccountName).toBe(ACCOUNT);
      const { code, stderr } = await runHook(manifests);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    }
  });

  /** Runs what the Job of the hook would run, as its account. */
  async function runHook(manifests: Manifest[]) {
    const job = pick(manifests, 'Job', 'beatkeeper-finalizers') as unknown as Job;
    const [container] = job.spec.template.spec.containers;
    const stated =
      container?.env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])) ?? [];
    const env = {
      ...Object.fromEntries(stated),
      POD_NAMESPACE: NAMESPACE,
      KUBECONFIG: await accountConfig(),
    };
    return await runRole(container?.args ?? [], env);
  }

  /** The path of a kubeconfig with a token of the hook's account. */
  async function accountConfig(): Promise<string> {
    const answer = (await test.transport.request({
      method: 'POST',
      path: `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/${ACCOUNT}/token`,
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
    })) as { status: { token: string } };
    const { clusters, contexts, currentContext } = loadKubeConfig(adminKubeconfig);
    const [{ user = '' } = {}] = contexts;
    const config = new KubeConfig();
    const users = [{ name: user, token: answer.status.token }];
    config.loadFromOptions({ clusters, contexts, currentContext, users });
    const path = join(folder, 'kubeconfig');
    await writeFile(path, config.exportConfig());
    return path;
  }
});
