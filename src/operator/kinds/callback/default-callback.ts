// Which Callback is the organization's default: of those that ask and may, the oldest, then by UID. Pure.
import { objectKey } from '../../../kube/kube-object.ts';
import { compareAge } from '../../resources/identity.ts';
import type { CallbackObject } from './callback-object.ts';

export type DefaultRank =
  | { state: 'not_asked' | 'not_allowed' | 'first' }
  /** `holder`: the `namespace/name` of the oldest. */
  | { state: 'older_exists'; holder: string };

/** `asking` are all Callbacks that ask, in any order; one that is being deleted does not count. */
export function rankDefault(
  object: CallbackObject,
  asking: readonly CallbackObject[],
  allowedNamespaces: readonly string[],
): DefaultRank {
  if (!object.spec.organizationDefault) return { state: 'not_asked' };
  if (!isAllowed(object, allowedNamespaces)) return { state: 'not_allowed' };
  const [oldest = object] = candidates(asking, allowedNamespaces);
  if (oldest.metadata.uid === object.metadata.uid) return { state: 'first' };
  return { state: 'older_exists', holder: objectKey(oldest) };
}

/** Those that ask and may, the oldest first. */
export function candidates(
  asking: readonly CallbackObject[],
  allowedNamespaces: readonly string[],
): CallbackObject[] {
  return asking
    .filter(
      (object) => object.metadata.deletionTimestamp === undefined && isAllowed(object, allowedNamespaces),
    )
    .toSorted(compareAge);
}

function isAllowed({ metadata }: CallbackObject, allowedNamespaces: readonly string[]): boolean {
  return allowedNamespaces.includes(metadata.namespace ?? '');
}
