// Who installs the chart: Helm 3 and Helm 4 in turns, and renderers that know nothing of the cluster. Each step of the
// first test starts from the state that the step before it left.
import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findHelm3, HOW_TO_GET_HELM_3 } from '../support/helm3.ts';
import { CHART, type Cluster, execute, IMAGE, makeNextChart, startCluster } from './cluster.ts';
import { monitor, restrictedNamespace } from './objects.ts';

const RELEASE = 'beatkeeper';
const settings = (namespace: string) => ['--namespace', namespace, '--set', `image.tag=${IMAGE.first}`];

let cluster: Cluster;
let helm3: string;
let nextChart: string;

beforeAll(async () => {
  helm3 = (await findHelm3()) ?? '';
  if (helm3 === '') throw new Error(HOW_TO_GET_HELM_3);
  nextChart = await makeNextChart();
  cluster = await startCluster();
});
afterAll(async () => {
  await cluster?.down();
  if (nextChart !== undefined) await rm(nextChart, { recursive: true });
});

/** The data of the Secrets that must never change, and the address of a job. */
async function keptValues(namespace: string): Promise<string[]> {
  const secrets = await cluster.kubectl('-n', namespace, 'get', 'secrets', '-o', 'json');
  const { items } = JSON.parse(secrets) as { items: { metadata: { name: string }; data: object }[] };
  return items
    .filter(({ metadata }) => !metadata.name.startsWith('sh.helm.'))
    .map(({ metadata, data }) => `${metadata.name} ${JSON.stringify(data)}`);
}

const waitForMonitor = (namespace: string) =>
  cluster.kubectl('-n', namespace, 'wait', '--for=condition=Ready', 'monitor/job', '--timeout=300s');
const aMonitor = (namespace: string) =>
  monitor('job', namespace, { intervalSeconds: 3600, callback: { kind: 'disabled' } });

describe('Helm 3 and Helm 4 in turns', () => {
  const namespace = 'in-turns';
  const run = async (helm: 3 | 4, ...args: string[]) => {
    if (helm === 4) return await cluster.helm(...args);
    return await execute(helm3, args, { env: { ...process.env, KUBECONFIG: cluster.kubeconfig } });
  };
  const wait = ['--wait', '--timeout', '5m'];
  const install = (helm: 3 | 4, chart: string) =>
    run(helm, 'install', RELEASE, chart, ...settings(namespace), ...wait);
  const upgrade = (helm: 3 | 4, chart: string) =>
    run(helm, 'upgrade', RELEASE, chart, ...settings(namespace), ...wait);
  const rollback = (helm: 3 | 4) => run(helm, 'rollback', RELEASE, '--namespace', namespace, ...wait);
  const uninstall = (helm: 3 | 4) => run(helm, 'uninstall', RELEASE, '--namespace', namespace, ...wait);

  it('install, upgrade, rollback, uninstall, and install another version, with data and Secrets kept', async () => {
    await cluster.apply(restrictedNamespace(namespace));
    await install(3, CHART);
    await cluster.apply(aMonitor(namespace));
    await waitForMonitor(namespace);
    const before = await keptValues(namespace);
    expect(before.join()).toMatch(/job-beat.*encryption|encryption.*job-beat/);

    await upgrade(4, nextChart);
    await rollback(3);
    await upgrade(3, nextChart);
    await rollback(4);
    await uninstall(4);
    await install(4, nextChart);
    await waitForMonitor(namespace);
    expect(await keptValues(namespace)).toEqual(before);

    await upgrade(3, CHART);
    await uninstall(3);
    await install(3, nextChart);
    await uninstall(4);
    await install(4, CHART);
    await waitForMonitor(namespace);
    expect(await keptValues(namespace)).toEqual(before);
    await uninstall(4);
  });
});

describe('a renderer that knows nothing of the cluster', () => {
  const namespace = 'rendered';
  const workloads = [
    ...['api', 'sweeper', 'operator'].map((role) => `deployment/${RELEASE}-${role}`),
    `statefulset/${RELEASE}-postgresql`,
  ];
  const waitForWorkloads = async () => {
    for (const one of workloads)
      await cluster.kubectl('-n', namespace, 'rollout', 'status', one, '--timeout=300s');
  };
  const applyRendered = async (chart: string) => {
    const manifests = await cluster.helm(
      ...['template', RELEASE, chart, '--include-crds', '--no-hooks'],
      ...settings(namespace),
    );
    await cluster.kubectlWith(manifests, '-n', namespace, 'apply', '--filename', '-');
    await waitForWorkloads();
  };

  it('may apply the chart again and again: keys, passwords and data stay', async () => {
    await cluster.apply(restrictedNamespace(namespace));
    await applyRendered(CHART);
    await cluster.apply(aMonitor(namespace));
    await waitForMonitor(namespace);
    const before = await keptValues(namespace);
    expect(before.join()).toMatch(/encryption/);
    await applyRendered(CHART);
    await applyRendered(nextChart);
    // New pods of every role, and of the database, work with the same passwords and keys.
    await cluster.kubectl('-n', namespace, 'rollout', 'restart', ...workloads);
    await waitForWorkloads();
    await waitForMonitor(namespace);
    expect(await keptValues(namespace)).toEqual(before);
  });
});
