// Which Callbacks are to be looked at when another one has changed. Enqueues, no more.
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
    // An alias may be free now.
    callbacks.forgetRefusals('service.conflict');
    enqueue(callbacks.listBy('waitsForAlias', 'true'));
  });
}

/** True if the change may decide where alerts of Monitors lead, or which endpoint is the default. */
export function concernsTargets({ type, object, previous }: StoreChange<CallbackObject>): boolean {
  return type !== 'updated' || !isSameTarget(previous, object) || asks(previous) !== asks(object);
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

function asks({ spec }: CallbackObject): boolean {
  return spec.organizationDefault ?? false;
}

/** It asks to be the organization's default, or was that when it was last looked at. */
function concernsDefault({ spec, status }: CallbackObject): boolean {
  return spec.organizationDefault === true || status?.isOrganizationDefault === true;
}
