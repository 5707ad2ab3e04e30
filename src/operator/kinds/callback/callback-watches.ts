// Enqueues the Callbacks that a change of another Callback concerns.
import type { StoreChange } from '../../../kube/object-store.ts';
import type { ObjectCache } from '../../known/object-cache.ts';
import type { CallbackObject } from './callback-object.ts';

/** Subscribes to the Callbacks themselves. */
export function watchCallbacks(
  callbacks: ObjectCache<CallbackObject>,
  enqueue: (objects: Iterable<CallbackObject>) => void,
): void {
  callbacks.subscribe((change) => {
    if (!concernsTargets(change)) return;
    const { object, previous } = change;
    if (object.spec.organizationDefault || previous?.spec.organizationDefault) {
      enqueue([...callbacks.values()].filter(concernsDefault));
    }
    // An alias may have become free.
    callbacks.forgetRefusals('service.conflict');
    enqueue(callbacks.listBy('waitsForAlias', 'true'));
  });
}

/** True if the change may affect where alerts of Monitors go, or which endpoint is the default. */
export function concernsTargets({ type, object, previous }: StoreChange<CallbackObject>): boolean {
  return (
    type !== 'updated' ||
    !isSameTarget(previous, object) ||
    requestsDefault(previous) !== requestsDefault(object)
  );
}

function isSameTarget(before: CallbackObject, after: CallbackObject): boolean {
  const [a, b] = [before.status, after.status];
  return (
    a?.alias === b?.alias &&
    a?.endpointId === b?.endpointId &&
    a?.lifecycle === b?.lifecycle &&
    a?.isOrganizationDefault === b?.isOrganizationDefault &&
    before.metadata.deletionTimestamp === after.metadata.deletionTimestamp
  );
}

function requestsDefault({ spec }: CallbackObject): boolean {
  return spec.organizationDefault ?? false;
}

/** It requests the organization's default, or was the default in the last pass. */
export function concernsDefault({ spec, status }: CallbackObject): boolean {
  return spec.organizationDefault === true || status?.isOrganizationDefault === true;
}
