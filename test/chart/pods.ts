// Reads the pods from rendered objects of any kind.
import type { Manifest } from './helm.ts';

interface Variable {
  name: string;
  value?: string;
  valueFrom?: { secretKeyRef?: { name: string; key: string } };
}

export interface Container {
  name: string;
  image: string;
  args?: string[];
  env?: Variable[];
  envFrom?: { configMapRef: { name: string } }[];
  securityContext: Record<string, unknown>;
  resources: { requests?: object; limits?: { memory?: string } };
  livenessProbe?: object;
  readinessProbe?: { timeoutSeconds?: number };
  startupProbe?: { exec?: { command: string[] }; timeoutSeconds?: number };
  lifecycle?: { preStop?: { sleep?: { seconds: number } } };
  volumeMounts?: { name: string; mountPath: string }[];
}

export interface PodSpec {
  serviceAccountName?: string;
  automountServiceAccountToken?: boolean;
  terminationGracePeriodSeconds?: number;
  securityContext: Record<string, unknown>;
  containers: Container[];
  initContainers?: Container[];
  volumes?: {
    name: string;
    projected?: { sources: { serviceAccountToken?: { audience?: string; path?: string } }[] };
  }[];
  [field: string]: unknown;
}

export interface Pod {
  /** `Deployment/beatkeeper-api`. */
  owner: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
  spec: PodSpec;
  containers: Container[];
}

interface Template {
  metadata?: { labels?: Record<string, string>; annotations?: Record<string, string> };
  spec: PodSpec;
}

/** Every pod that the objects create. */
export function listPods(manifests: Manifest[]): Pod[] {
  return manifests.flatMap((manifest) => {
    const template = templateOf(manifest);
    if (template === undefined) return [];
    const { spec, metadata } = template;
    return [
      {
        owner: `${manifest.kind}/${manifest.metadata.name}`,
        labels: metadata?.labels ?? {},
        annotations: metadata?.annotations ?? {},
        spec,
        containers: [...(spec.initContainers ?? []), ...spec.containers],
      },
    ];
  });
}

function templateOf(manifest: Manifest): Template | undefined {
  if (manifest.kind === 'Pod') return { metadata: manifest.metadata, spec: manifest.spec as PodSpec };
  return (manifest.spec as { template?: Template } | undefined)?.template;
}

/** The pod of `owner` (`Deployment/beatkeeper-api`). */
export function pickPod(manifests: Manifest[], owner: string): Pod {
  const found = listPods(manifests).find((pod) => pod.owner === owner);
  if (found === undefined) throw new Error(`no ${owner}`);
  return found;
}

/** The value of an environment variable that is not taken from elsewhere. */
export function variable(container: Container | undefined, name: string): string | undefined {
  return container?.env?.find((each) => each.name === name)?.value;
}
