// Several releases may watch a namespace. Each object belongs to the one that claimed it, and the others leave it alone.
import { MANAGED_BY } from '../../contract/crd/custom-resources.ts';
import type { KubeObject } from '../../kube/kube-object.ts';

/** The other release that manages the object; undefined: this one does, or none. */
export function otherReleaseOf({ metadata }: KubeObject, release: string): string | undefined {
  const stated = metadata.annotations?.[MANAGED_BY];
  return stated === undefined || stated === '' || stated === release ? undefined : stated;
}
