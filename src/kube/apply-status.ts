// Writes the status of an object by server-side apply, and only when it differs.

import { isDeepStrictEqual } from 'node:util';
import type { KubeClient } from './kube-client.ts';
import type { KubeObject, KubeResource } from './kube-object.ts';

export interface StatusApply<T extends KubeObject> {
  /** The object as last read: its `status` is what the wanted one is compared with. */
  object: T & { status?: object };
  /** The whole status that this manager owns: what is left out is removed. */
  status: object;
  fieldManager: string;
  signal?: AbortSignal;
}

/**
 * The status becomes what is given, also where others wrote into it. Undefined if nothing differs (nothing is sent);
 * else the object as stored.
 * Throws KubeError: 409 if the object has changed since it was read or was made again (a controller then comes back
 * as soon as its cache has the change), 404 if it is gone.
 *
 * The resourceVersion is the guard, because the status subresource ignores a uid in the body. Without it a stale
 * cache would move the time of a condition, or write what was found for one object on the next of its name.
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

/** Fields that hold what is not wanted: an apply leaves what another manager has put in, items of lists too. */
function foreignFields(stored: object | undefined, wanted: object): string[] {
  const should = new Map(Object.entries(wanted));
  return Object.entries(stored ?? {}).flatMap(([field, value]) =>
    isPartOf(value, should.get(field)) ? [] : [field],
  );
}

/** What the schema of the cluster has cut off is not foreign: the part may hold less. */
function isPartOf(part: unknown, whole: unknown): boolean {
  if (typeof part !== 'object' || part === null || typeof whole !== 'object' || whole === null)
    return part === whole;
  if (Array.isArray(part)) {
    return Array.isArray(whole) && part.every((item) => whole.some((other) => isPartOf(item, other)));
  }
  const fields = new Map(Object.entries(whole));
  return Object.entries(part).every(([field, value]) => isPartOf(value, fields.get(field)));
}

/** Takes fields away. Null sets nothing, so that nobody owns them afterwards. */
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

/** True if both are the same JSON; the order of `conditions` does not count. */
export function isSameStatus(a: object | undefined, b: object | undefined): boolean {
  return isDeepStrictEqual(normalize(a), normalize(b));
}

/** As the server would store it: no undefined, no prototypes, conditions in one order. */
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
