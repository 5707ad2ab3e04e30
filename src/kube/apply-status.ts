// Writes the status of an object by server-side apply, and only when it differs.

import { isDeepStrictEqual } from 'node:util';
import type { KubeClient } from './kube-client.ts';
import { isConflict } from './kube-error.ts';
import type { KubeObject, KubeResource } from './kube-object.ts';

export interface StatusApply<T extends KubeObject> {
  /** The object as last read: its `status` is what the wanted one is compared with. */
  object: T & { status?: object };
  /** The whole status that this manager owns: what is left out is removed. */
  status: object;
  fieldManager: string;
  signal?: AbortSignal;
}

const maxTries = 5;

/**
 * Undefined if nothing differs (nothing is sent); else the object as stored.
 * Throws KubeError: 409 if an object of the same name was made since, 404 if it is gone.
 *
 * The status subresource ignores a uid in the body, so the resourceVersion is the guard: what was found for one
 * object is never written on the next of its name. A copy that is merely old is read again.
 */
export async function applyStatus<T extends KubeObject>(
  client: KubeClient,
  resource: KubeResource<T>,
  apply: StatusApply<T>,
): Promise<T | undefined> {
  const { status, fieldManager, signal } = apply;
  const { name, namespace, uid } = apply.object.metadata;
  let latest = apply.object;
  for (let tries = 1; ; tries += 1) {
    if (isSameStatus(latest.status, status)) return undefined;
    const body = { metadata: { name, namespace, resourceVersion: latest.metadata.resourceVersion }, status };
    try {
      return await client.apply(resource, body, { subresource: 'status', fieldManager, signal });
    } catch (error) {
      if (!isConflict(error) || tries >= maxTries) throw error;
      latest = await client.get(resource, { name, namespace }, { signal });
      if (latest.metadata.uid !== uid) throw error;
    }
  }
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
