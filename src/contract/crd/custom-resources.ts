// The one list of the custom resources: group, version, kinds, plurals, and the finalizer of their objects. The CRDs, the
// operator (caches, watches, queues, metrics) and the commands that install and uninstall read it. It imports nothing.

export const API_GROUP = 'beatkeeper.dev';
export const API_VERSION = 'v1alpha1';

/** Keeps an object until the operator has dealt with its monitor or endpoint at the API. A Rule has none. */
export const FINALIZER = `${API_GROUP}/sync`;

/** On the CRDs: the version of the product that they are of. */
export const VERSION_ANNOTATION = `${API_GROUP}/version`;

/** The annotation of an object that names the release that manages it: the others leave it alone. */
export const MANAGED_BY = `${API_GROUP}/managed-by`;

/** On a namespace: the name of the project of its objects. */
export const PROJECT_ANNOTATION = `${API_GROUP}/project`;

/** Each new value replays a Rule with `rollout: Replay` once more. */
export const REPLAY_ANNOTATION = `${API_GROUP}/replay`;

/** `<namespace>/<fullname>`, from the operator's Deployment or Lease: both are called `<fullname>-operator`. */
export function releaseOf({ namespace, name }: { namespace: string; name: string }): string {
  return `${namespace}/${name.replace(/-operator$/, '')}`;
}

const OURS = { apiVersion: `${API_GROUP}/${API_VERSION}`, namespaced: true } as const;

export const CUSTOM_RESOURCES = {
  Monitor: { ...OURS, kind: 'Monitor', plural: 'monitors', shortName: 'mon' },
  Callback: { ...OURS, kind: 'Callback', plural: 'callbacks', shortName: 'cb' },
  Rule: { ...OURS, kind: 'Rule', plural: 'rules', shortName: 'brule' },
} as const;

export type CustomKind = keyof typeof CUSTOM_RESOURCES;
