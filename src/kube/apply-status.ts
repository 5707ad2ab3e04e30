// Writes the status of an object by server-side apply, only when it differs.

import { isDeepStrictEqual } from 'node:util';
import type { KubeClient } from './kube-client.ts';
import type { KubeObject, KubeResource } from './kube-object.ts';

export interface StatusApply<T extends KubeObject> {
  /** The object as last read; its `status` is compared with the desired one. */
  object: T & { status?: object };
  /** The whole status that this manager owns: the server removes fields that are left out. */
  status: object;
  fieldManager: string;
  signal?: AbortSignal;
}

/**
 * Makes the status equal to `apply.status`, also where others have written into it. Returns the stored object, or
 * undefined if nothing differs; then it sends nothing.
 * Throws KubeError: 409 if the object has changed or was created again since the caller read it (the controller
 * reconciles again once its cache has the change), 404 if it is gone.
 *
 * The resourceVersion is the guard, because the status subresource ignores a uid in the body. Without a guard a stale
 * cache would move the time of a condition, or write the status of one object on a later object of the same name.
 */
export async function applyStatus<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  apply: StatusApply<T>,
): Promise<T | undefined> {
  if (isSameStatus(apply.object.status, apply.status)) return undefined;
  const stored = await send(client, resource, apply);
  const foreign = foreignFields(stored.status, apply.status);
  if (foreign.length === 0) return stored;
  return await send(client, resource, {
    ...apply,
    object: await clear(client, resource, { ...apply, object: stored }, foreign),
  });
}

function send<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  { object, status, fieldManager, signal }: StatusApply<T>,
): Promise<T & { status?: object }> {
  const { name, namespace, resourceVersion } = object.metadata;
  const body = { metadata: { name, namespace, resourceVersion }, status };
  return client.apply(resource, body, { subresource: 'status', fieldManager, signal });
}

/** Fields with content beyond the desired one: an apply keeps what other managers own, even single list items. */
function foreignFields(stored: object | undefined, wanted: object): string[] {
  const desired = new Map(Object.entries(wanted));
  return Object.entries(stored ?? {}).flatMap(([field, value]) =>
    isPartOf(value, desired.get(field)) ? [] : [field],
  );
}

/** The stored part may hold less than the whole: the cluster's schema may have pruned fields. */
function isPartOf(part: unknown, whole: unknown): boolean {
  if (typeof part !== 'object' || part === null || typeof whole !== 'object' || whole === null)
    return part === whole;
  if (Array.isArray(part)) {
    return Array.isArray(whole) && part.every((item) => whole.some((other) => isPartOf(item, other)));
  }
  const fields = new Map(Object.entries(whole));
  return Object.entries(part).every(([field, value]) => isPartOf(value, fields.get(field)));
}

/** Removes fields by null, which sets nothing: nobody owns them afterwards. */
async function clear<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  { object, fieldManager, signal }: StatusApply<T>,
  fields: readonly string[],
): Promise<T> {
  const status = Object.fromEntries(fields.map((field) => [field, null]));
  const patch = { metadata: { resourceVersion: object.metadata.resourceVersion }, status };
  return await client.mergePatch(resource, object.metadata, patch, {
    subresource: 'status',
    fieldManager,
    signal,
  });
}

/** True if both are the same JSON, whatever the order of `conditions`. */
export function isSameStatus(a: object | undefined, b: object | undefined): boolean {
  return isDeepStrictEqual(normalize(a), normalize(b));
}

/** The status as the server would store it, without undefined and prototypes, with its conditions sorted. */
function normalize(status: object | undefined): unknown {
  const copy: { conditions?: unknown } = JSON.parse(JSON.stringify(status ?? {}));
  if (Array.isArray(copy.conditions)) {
    copy.conditions = copy.conditions.toSorted((x: unknown, y: unknown) => (typeOf(x) < typeOf(y) ? -1 : 1));
  }
  return copy;
}

function typeOf(condition: unknown): string {
  const { type } = (condition ?? {}) as { type?: unknown };
  return typeof type === 'string' ? type : '';
}
