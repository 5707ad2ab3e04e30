// Applies the custom resource definitions of this build to a cluster and waits until they are served.
// A hook of the chart runs it, because Helm never upgrades CRDs, and so does `npm run dev`.
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { VERSION_ANNOTATION } from '../contract/crd/custom-resources.ts';
import { disownFields } from '../kube/field-owners.ts';
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

/** Names of definitions. */
export interface AppliedCrds {
  applied: string[];
  /** The cluster has them of a newer version: they were left as they are. */
  newer: string[];
}

/**
 * Applies every CRD of `crds/`, after `adapt` has changed it, and waits until all are established. A definition of a newer
 * version stays: the objects that were written under it may have fields that an older one would drop.
 * Throws KubeError, or an Error after 60 s.
 */
export async function applyCrds(
  cluster: Cluster,
  adapt: (crd: KubeObject) => KubeObject = (crd) => crd,
): Promise<AppliedCrds> {
  const result: AppliedCrds = { applied: [], newer: [] };
  for (const definition of (await readManifests(CRD_FOLDER)).map(adapt)) {
    const { name } = definition.metadata;
    const isNewer = isOlder(definition, await cluster.client.find(DEFINITIONS, { name }));
    if (!isNewer) await applyManifest(cluster, definition, { namespace: '', force: true });
    result[isNewer ? 'newer' : 'applied'].push(name);
  }
  for (const name of [...result.applied, ...result.newer]) {
    await waitUntilEstablished(cluster, name);
    // Whoever installs `crds/` next may apply another version without force, as Helm 4 does. No owner, no conflict.
    await disownFields(cluster.client, DEFINITIONS, { name });
  }
  return result;
}

const { compare } = new Intl.Collator('en', { numeric: true });

/** Compares `0.10.0` with `0.9.0` as numbers. A pre-release counts as its release; no version is the oldest. */
function isOlder(definition: KubeObject, stored: KubeObject | undefined): boolean {
  return compare(versionOf(definition), versionOf(stored)) < 0;
}

function versionOf(definition: KubeObject | undefined): string {
  return definition?.metadata.annotations?.[VERSION_ANNOTATION]?.split('-')[0] ?? '';
}

async function waitUntilEstablished({ client }: Cluster, name: string): Promise<void> {
  for (const deadline = performance.now() + 60_000; performance.now() < deadline; ) {
    const { status } = await client.get(DEFINITIONS, { name });
    if (status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True')) return;
    await delay(200);
  }
  throw new Error(`The API server did not establish the definition ${name} within a minute.`);
}
