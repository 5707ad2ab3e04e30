// Applies the custom resource definitions of this build to a cluster and waits until they are served.
// A hook of the chart runs it, because Helm never upgrades CRDs, and so does `npm run dev`.
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { KubeObject, KubeResource } from '../kube/kube-object.ts';
import { applyManifest, type Cluster, readManifests } from './apply-manifests.ts';

export const CRD_FOLDER = fileURLToPath(new URL('../../crds', import.meta.url));

interface Definition extends KubeObject {
  status?: { conditions?: { type: string; status: string }[] };
}

const DEFINITIONS: KubeResource<Definition> = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  plural: 'customresourcedefinitions',
  namespaced: false,
};

/**
 * Applies every CRD of `crds/`, after `adapt` has changed it, and waits until all are established.
 * Resolves to their names. Throws KubeError, or an Error after 60 s.
 */
export async function applyCrds(
  cluster: Cluster,
  adapt: (crd: KubeObject) => KubeObject = (crd) => crd,
): Promise<string[]> {
  const definitions = await readManifests(CRD_FOLDER);
  for (const definition of definitions) {
    await applyManifest(cluster, adapt(definition), { namespace: '', force: true });
  }
  const names = definitions.map((definition) => definition.metadata.name);
  for (const name of names) await waitUntilEstablished(cluster, name);
  return names;
}

async function waitUntilEstablished({ client }: Cluster, name: string): Promise<void> {
  for (const deadline = performance.now() + 60_000; performance.now() < deadline; ) {
    const { status } = await client.get(DEFINITIONS, { name });
    if (status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True')) return;
    await delay(200);
  }
  throw new Error(`The API server did not establish the definition ${name} within a minute.`);
}
