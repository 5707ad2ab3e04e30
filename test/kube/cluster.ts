// Clients of the control plane of the test run, namespaces in it, and proxies to it.

import { randomUUID } from 'node:crypto';
import { isIP } from 'node:net';
import { KubeConfig } from '@kubernetes/client-node';
import { Registry } from 'prom-client';
import { inject } from 'vitest';
import { KubeClient } from '../../src/kube/kube-client.ts';
import { createKubeMetrics } from '../../src/kube/kube-metrics.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

export interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

export const configMaps: KubeResource<ConfigMap> = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  plural: 'configmaps',
  namespaced: true,
};

export const namespaces: KubeResource = {
  apiVersion: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  namespaced: false,
};

/** Path of an administrator's kubeconfig for the control plane of this worker; '' where none can be had. */
export const adminKubeconfig = await askForControlPlane();

/** False where no control plane can be had: then the suite is skipped, and its set-up has printed why. */
export const hasCluster = adminKubeconfig !== '';

export interface TestClient {
  client: KubeClient;
  transport: KubeTransport;
  registry: Registry;
  metrics: ReturnType<typeof createKubeMetrics>;
  close(): Promise<void>;
}

/** A busy API server answers each call in time; `limits` of a test that waits for the end of a call are other ones. */
export function connect(
  loadConfig = () => loadKubeConfig(adminKubeconfig),
  limits: { requestTimeoutMs?: number } = { requestTimeoutMs: 60_000 },
): TestClient {
  const registry = new Registry();
  const metrics = createKubeMetrics(registry);
  const transport = new KubeTransport({ loadConfig, userAgent: 'kube-test/1', metrics, ...limits });
  return { client: new KubeClient(transport), transport, registry, metrics, close: () => transport.close() };
}

/** A proxy to the cluster, and the kubeconfig that leads through it. */
export async function startClusterProxy(): Promise<{ proxy: TcpProxy; proxied: KubeConfig }> {
  const direct = loadKubeConfig(adminKubeconfig);
  const cluster = direct.getCurrentCluster();
  if (cluster === null) throw new Error('The kubeconfig has no cluster.');
  const { hostname } = new URL(cluster.server);
  const proxy = await TcpProxy.start(cluster.server);
  const proxied = new KubeConfig();
  proxied.loadFromOptions({
    // The certificate names the first address: by name if it is one, and 127.0.0.1 is in it anyway.
    clusters: [{ ...cluster, server: proxy.url, ...(isIP(hostname) > 0 ? {} : { tlsServerName: hostname }) }],
    users: direct.users,
    contexts: direct.contexts,
    currentContext: direct.currentContext,
  });
  return { proxy, proxied };
}

/** A client whose connections go through a proxy. */
export async function connectThroughProxy(
  limits: { requestTimeoutMs?: number } = {},
): Promise<TestClient & { proxy: TcpProxy }> {
  const { proxy, proxied } = await startClusterProxy();
  const connection = connect(() => proxied, limits);
  const close = async (): Promise<void> => {
    await connection.close();
    await proxy.close();
  };
  return { ...connection, proxy, close };
}

/** A new namespace; it stays, there may be no controller that would empty it. */
export async function createNamespace(client: KubeClient, name = `kube-${randomUUID()}`): Promise<string> {
  await client.create(namespaces, { metadata: { name } });
  return name;
}

/** The sum of all series of a counter or gauge that have these labels. */
export async function metricValue(
  registry: Registry,
  name: string,
  labels: Record<string, string>,
): Promise<number> {
  const metric = await registry.getSingleMetric(name)?.get();
  const found = (metric?.values ?? []).filter((value) =>
    Object.entries(labels).every(([label, wanted]) => value.labels[label] === wanted),
  );
  return found.reduce((sum, { value }) => sum + value, 0);
}

async function askForControlPlane(): Promise<string> {
  const answer = await fetch(`${inject('controlPlanes')}/${process.env.VITEST_POOL_ID}`);
  if (!answer.ok) throw new Error(await answer.text());
  return await answer.text();
}
