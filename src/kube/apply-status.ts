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
 * Undefined if nothing differs (nothing is sent); else the object as stored.
 * Throws KubeError: 409 if an object of the same name was made since, 404 if it is gone.
 */
export async function applyStatus<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  apply: StatusApply<T>,
): Promise<T | undefined> {
  const { object, status, fieldManager, signal } = apply;
  if (isSameStatus(object.status, status)) return undefined;
  const { name, namespace, uid } = object.metadata;
  // The uid is a precondition: never write what was found for an object that is gone.
  const body = { metadata: { name, namespace, uid }, status };
  return client.apply(resource, body, { subresource: 'status', fieldManager, force: true, signal });
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
