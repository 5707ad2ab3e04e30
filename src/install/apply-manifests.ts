// Applies YAML to a cluster as `kubectl apply --server-side` does. Kinds are looked up in the API server's discovery.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import type { KubeClient } from '../kube/kube-client.ts';
import type { KubeObject, KubeResource } from '../kube/kube-object.ts';
import type { KubeTransport } from '../kube/kube-transport.ts';

const FIELD_MANAGER = 'beatkeeper-setup';

export interface Cluster {
  transport: KubeTransport;
  client: KubeClient;
}

/** Reads the objects of all YAML files in a folder, in the order of file names. Throws at the first broken file. */
export async function readManifests(folder: string): Promise<KubeObject[]> {
  const names = (await readdir(folder)).filter((name) => /\.ya?ml$/.test(name)).sort();
  const objects: KubeObject[] = [];
  for (const name of names) {
    for (const document of parseAllDocuments(await readFile(join(folder, name), 'utf8'))) {
      if (document.errors.length > 0) throw new Error(`${name}: ${document.errors[0]?.message}`);
      const object: unknown = document.toJS();
      if (object === null) continue;
      if (!isKubeObject(object)) throw new Error(`${name}: an object has no kind or no metadata.name.`);
      objects.push(object);
    }
  }
  return objects;
}

function isKubeObject(value: unknown): value is KubeObject {
  const object = value as Partial<KubeObject> | null;
  return typeof object?.kind === 'string' && typeof object.metadata?.name === 'string';
}

/**
 * Applies one object. `namespace` is the default for objects without one. A conflict with another field manager is an
 * error unless `force` takes the fields over. Throws KubeError with the server's message.
 */
export async function applyManifest(
  cluster: Cluster,
  object: KubeObject,
  options: { namespace: string; force: boolean },
): Promise<KubeObject> {
  const resource = await findResource(cluster.transport, object);
  const { namespace = options.namespace } = object.metadata;
  const metadata = resource.namespaced ? { ...object.metadata, namespace } : object.metadata;
  const write = { fieldManager: FIELD_MANAGER, force: options.force };
  return await cluster.client.apply(resource, { ...object, metadata }, write);
}

interface ResourceList {
  resources: { name: string; kind: string; namespaced: boolean }[];
}

async function findResource(transport: KubeTransport, object: KubeObject): Promise<KubeResource> {
  const { apiVersion = 'v1', kind = '' } = object;
  const path = `${apiVersion.includes('/') ? '/apis' : '/api'}/${apiVersion}`;
  const { resources } = (await transport.request({ method: 'GET', path })) as ResourceList;
  const found = resources.find((resource) => resource.kind === kind && !resource.name.includes('/'));
  if (found === undefined) throw new Error(`The cluster has no kind ${kind} in ${apiVersion}.`);
  return { apiVersion, kind, plural: found.name, namespaced: found.namespaced };
}
