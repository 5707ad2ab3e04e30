// Shapes of Kubernetes objects in JSON (times are RFC 3339 strings), paths of resources, keys of objects. No I/O.

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface KubeMetadata {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
  managedFields?: unknown[];
}

export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: KubeMetadata;
}

export interface KubeList<T> {
  metadata: { resourceVersion?: string; continue?: string; remainingItemCount?: number };
  items: T[];
}

/** Names one object. A cluster-scoped object has no `namespace`. */
export interface ObjectRef {
  namespace?: string;
  name: string;
}

/**
 * One kind of object: `{apiVersion: 'batch/v1', kind: 'CronJob', plural: 'cronjobs', namespaced: true}`.
 * The client does not check that objects are of type T: the server validates them against its own schema.
 */
export interface KubeResource<T extends KubeObject = KubeObject> {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  /** Applied to each object that a call returns. It drops fields that nobody needs, in caches and answers alike. */
  transform?(object: T): T;
}

/** `namespace/name`, or `name` for a cluster-scoped object: the key of caches and queues. */
export function objectKey({ metadata: { namespace, name } }: KubeObject): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

/** The namespace in an `objectKey`; '' for a cluster-scoped object. */
export function namespaceOfKey(key: string): string {
  return key.slice(0, Math.max(0, key.indexOf('/')));
}

/**
 * The URL path of a collection (`ref` without a name) or an object, with an optional subresource.
 * Throws a RangeError if `ref` names an object of a namespaced kind without its namespace.
 */
export function resourcePath(
  resource: KubeResource,
  ref: { namespace?: string; name?: string } = {},
  subresource?: string,
): string {
  if (resource.namespaced && ref.name !== undefined && ref.namespace === undefined) {
    throw new RangeError(`${resource.kind} ${ref.name} needs a namespace.`);
  }
  const root = resource.apiVersion.includes('/') ? '/apis' : '/api';
  const parts = [root, resource.apiVersion];
  if (resource.namespaced && ref.namespace !== undefined) {
    parts.push('namespaces', encodeURIComponent(ref.namespace));
  }
  parts.push(resource.plural);
  if (ref.name !== undefined) parts.push(encodeURIComponent(ref.name));
  if (subresource !== undefined) parts.push(subresource);
  return parts.join('/');
}

/** An owner reference that makes `object` the controller. Throws a RangeError if `object` was never stored. */
export function controllerReference(resource: KubeResource, object: KubeObject): OwnerReference {
  const { name, uid } = object.metadata;
  if (uid === undefined)
    throw new RangeError(`${resource.kind} ${name} has no uid: read it from the API server first.`);
  const { apiVersion, kind } = resource;
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** A copy without `metadata.managedFields`, which no cache needs. */
export function withoutManagedFields<T extends KubeObject>(object: T): T {
  if (object.metadata.managedFields === undefined) return object;
  const { managedFields: _dropped, ...metadata } = object.metadata;
  return { ...object, metadata };
}

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/** A copy without what only the API server and kubectl keep in it: kubectl's copy would double what a cache holds. */
export function withoutBookkeeping<T extends KubeObject>(raw: T): T {
  const object = withoutManagedFields(raw);
  const { annotations } = object.metadata;
  if (annotations?.[LAST_APPLIED] === undefined) return object;
  const { [LAST_APPLIED]: _dropped, ...kept } = annotations;
  return { ...object, metadata: { ...object.metadata, annotations: kept } };
}

export function hasFinalizer(object: KubeObject, finalizer: string): boolean {
  return object.metadata.finalizers?.includes(finalizer) ?? false;
}

/** metav1.Time has whole seconds: the server would cut a fraction off, and the next comparison would see a change. */
export function formatSeconds(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** metav1.MicroTime, as Leases have it: exactly six fraction digits, `2026-01-02T03:04:05.006000Z`. */
export function formatMicroTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, -1)}000Z`;
}
