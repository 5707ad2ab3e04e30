// Helm 3 and Helm 4, mixed: install, upgrade, rollback, uninstall and install again, of this chart and of another version.
// The cluster runs no pods: the tests run the command of the hook that applies the definitions.
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { HOW_TO_GET_A_CONTROL_PLANE } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { applyCrds } from '../../src/install/apply-crds.ts';
import type { Cluster } from '../../src/install/apply-manifests.ts';
import { connectCluster } from '../../src/install/connect-cluster.ts';
import { endOperator } from '../../src/install/end-operator.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { startTestControlPlane, type TestControlPlane } from '../support/control-plane.ts';
import { findHelm3, HOW_TO_GET_HELM_3 } from '../support/helm3.ts';
import { runProgram } from '../support/run-program.ts';
import { waitFor } from '../support/wait-for.ts';
import { CHART, findProgram, NAMESPACE, RELEASE, requireHelm } from './helm.ts';

interface Definition extends KubeObject {
  spec: { versions: { additionalPrinterColumns: { name: string }[] }[] };
}

const DEFINITIONS: KubeResource<Definition> = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  plural: 'customresourcedefinitions',
  namespaced: false,
};
const DEPLOYMENTS: KubeResource<KubeObject & { spec: { replicas: number } }> = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  plural: 'deployments',
  namespaced: true,
};
const NAMES = ['callbacks.beatkeeper.dev', 'monitors.beatkeeper.dev', 'rules.beatkeeper.dev'];
const VERSION = 'beatkeeper.dev/version';
const NEXT = '99.0.0';

const helm4 = await requireHelm();
const helm3 = helm4 === undefined ? undefined : await findHelm3();
if (helm4 !== undefined && helm3 === undefined) console.error(HOW_TO_GET_HELM_3);
if (helm3 === undefined && process.env.CI) throw new Error(HOW_TO_GET_HELM_3);

describe.skipIf(helm3 === undefined)('Helm 3 and Helm 4', () => {
  let plane: TestControlPlane | undefined;
  let cluster: Cluster;
  let nextChart: string;

  beforeAll(async () => {
    plane = await startTestControlPlane();
    nextChart = await makeNextChart();
    if (plane !== undefined) cluster = connectCluster(plane.kubeconfig);
    else if (process.env.CI) throw new Error(HOW_TO_GET_A_CONTROL_PLANE);
  }, 600_000);
  afterAll(async () => {
    await cluster?.transport.close();
    await plane?.stop();
    await rm(nextChart, { recursive: true });
  });

  const run = async (helm: string, ...args: string[]) => {
    const target = ['--kubeconfig', plane?.kubeconfig ?? '', '--namespace', NAMESPACE];
    const { code, stderr } = await runProgram(helm, [...args, ...target]);
    return code === 0 ? 'done' : stderr;
  };
  const install = (helm: string, chart: string) =>
    run(helm, 'install', RELEASE, chart, '--create-namespace', '--no-hooks');
  const upgrade = (helm: string, chart: string) => run(helm, 'upgrade', RELEASE, chart, '--no-hooks');
  const uninstall = (helm: string) => run(helm, 'uninstall', RELEASE, '--no-hooks');
  const definition = () => cluster.client.get(DEFINITIONS, { name: 'monitors.beatkeeper.dev' });
  const version = async () => (await definition()).metadata.annotations?.[VERSION];

  async function deleteDefinitions(): Promise<void> {
    for (const name of NAMES) {
      await cluster.client.delete(DEFINITIONS, { name });
      const isGone = async () => (await cluster.client.find(DEFINITIONS, { name })) === undefined;
      await waitFor(isGone, { what: `${name} is gone` });
    }
  }

  const mixes = [
    ['Helm 4', 'Helm 4'],
    ['Helm 3', 'Helm 4'],
    ['Helm 4', 'Helm 3'],
    ['Helm 3', 'Helm 3'],
  ] as const;
  it.for(mixes)(
    'installed by %s, each step works with %s, and so does an install of another version',
    async ([one, other], { skip }) => {
      if (plane === undefined) return skip('no API server');
      const helms = { 'Helm 3': helm3 ?? '', 'Helm 4': helm4 ?? '' };
      const [first, second] = [helms[one], helms[other]];
      await deleteDefinitions();
      expect(await install(first, CHART)).toBe('done');
      await applyCrds(cluster);
      expect(await upgrade(second, nextChart)).toBe('done');
      expect((await applyCrds(cluster, toNext)).applied).toEqual(NAMES);
      expect(await version()).toBe(NEXT);
      expect(await run(first, 'rollback', RELEASE, '1', '--no-hooks')).toBe('done');
      expect(await upgrade(second, CHART)).toBe('done');
      expect(await uninstall(first)).toBe('done');
      // The definitions are those of the next version, and this one comes back. And the other way round.
      for (const chart of [CHART, nextChart]) {
        expect(await install(second, chart)).toBe('done');
        await applyCrds(cluster, chart === CHART ? undefined : toNext);
        expect(await uninstall(first)).toBe('done');
      }
    },
  );

  it('what another tool has applied is in nobody’s way after the hook', async ({ skip }) => {
    if (plane === undefined) return skip('no API server');
    await deleteDefinitions();
    const kubectl = ['apply', '--kubeconfig', plane.kubeconfig, '--filename', join(CHART, 'crds')];
    expect(await runProgram((await findProgram('kubectl')) ?? '', kubectl)).toMatchObject({ code: 0 });
    await applyCrds(cluster);
    expect(await install(helm4 ?? '', nextChart)).toBe('done');
    expect(await version()).toBe(NEXT);
    expect(await uninstall(helm4 ?? '')).toBe('done');
  });

  it.for(['Helm 3', 'Helm 4'] as const)(
    'after an uninstall that ran out of time %s refuses an upgrade, and a rollback brings the operator back',
    async (name, { skip }) => {
      if (plane === undefined) return skip('no API server');
      const helm = (name === 'Helm 3' ? helm3 : helm4) ?? '';
      const operatorDeployment = `${RELEASE}-operator`;
      const replicas = async () =>
        (await cluster.client.get(DEPLOYMENTS, { namespace: NAMESPACE, name: operatorDeployment })).spec
          .replicas;
      await deleteDefinitions();
      expect(await install(helm, CHART)).toBe('done');
      const before = await replicas();
      // Its Job never ends here: this cluster runs no pods. What the Job does first, happens here.
      expect(await run(helm, 'uninstall', RELEASE, '--timeout', '3s')).not.toBe('done');
      const log = createLog({ role: 'test', level: 'silent' });
      await endOperator(cluster, { namespace: NAMESPACE, operatorDeployment }, log);
      expect(await replicas()).toBe(0);
      expect(await upgrade(helm, CHART)).toContain('has no deployed releases');
      expect(await run(helm, 'rollback', RELEASE, '1', '--no-hooks')).toBe('done');
      expect(await replicas()).toBe(before);
      expect(await upgrade(helm, CHART)).toBe('done');
      expect(await run(helm, 'uninstall', RELEASE, '--timeout', '3s')).not.toBe('done');
      expect(await uninstall(helm)).toBe('done');
    },
  );

  it('an older version of a definition never replaces a newer one', async ({ skip }) => {
    if (plane === undefined) return skip('no API server');
    await applyCrds(cluster, toNext);
    expect(await applyCrds(cluster)).toEqual({ applied: [], newer: NAMES });
    expect(await version()).toBe(NEXT);
    const { spec } = await definition();
    expect(spec.versions[0]?.additionalPrinterColumns.at(-1)?.name).toBe('Next');
  });
});

function toNext(crd: KubeObject): KubeObject {
  const { spec, metadata } = structuredClone(crd) as Definition;
  const column = { name: 'Next', type: 'string', jsonPath: '.metadata.name' };
  spec.versions[0]?.additionalPrinterColumns.push(column);
  return { ...crd, metadata: { ...metadata, annotations: { [VERSION]: NEXT } }, spec } as KubeObject;
}

/** A copy of the chart with a higher version and other definitions. */
async function makeNextChart(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-chart-'));
  await cp(CHART, folder, { recursive: true });
  const edit = async (file: string, change: (text: string) => string) =>
    await writeFile(join(folder, file), change(await readFile(join(folder, file), 'utf8')));
  await edit('Chart.yaml', (text) => text.replace(/^version: .*/m, `version: ${NEXT}`));
  for (const name of await readdir(join(folder, 'crds'))) {
    await edit(join('crds', name), (text) => stringify(toNext(parse(text) as KubeObject)));
  }
  return folder;
}
