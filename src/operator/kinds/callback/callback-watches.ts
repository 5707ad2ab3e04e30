// Enqueues the Callbacks that a change of another Callback concerns.
import type { StoreChange } from '../../../kube/object-store.ts';
import type { ObjectCache, ObjectMemory } from '../../known/object-cache.ts';
import type { OperatorTuning } from '../../operator-context.ts';
import { shownDestinationFault } from '../../pass/destination.ts';
import type { Enqueue } from '../../pass/kind.ts';
import type { CallbackObject } from './callback-object.ts';
import { isAllowed } from './organization-default.ts';

/** Subscribes to the Callbacks themselves. */
export function watchCallbacks(
  callbacks: ObjectCache<CallbackObject>,
  { defaultCallbackNamespaces: allowed }: Pick<OperatorTuning, 'defaultCallbackNamespaces'>,
  enqueue: Enqueue<CallbackObject>,
): void {
  const isConcerned = (object: CallbackObject) =>
    concernsDefault(object, callbacks.memoryOf(object), allowed);
  callbacks.subscribe((change) => {
    if (!concernsTargets(change)) return;
    const { object, previous } = change;
    if (
      [object, previous].some((one) => one !== undefined && requestsDefault(one) && isAllowed(one, allowed))
    )
      enqueue([...callbacks.values()].filter(isConcerned), 'low');
    // An alias may have become free.
    callbacks.forgetRefusals('service.conflict');
    enqueue(callbacks.listBy('waitsForAlias', 'true'), 'low');
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

/** True if alerts may go to the address of the Callback no more, or may again. */
export function changesRejection({ type, object, previous }: StoreChange<CallbackObject>): boolean {
  return type === 'updated' && isRejected(previous) !== isRejected(object);
}

function isRejected(object: CallbackObject): boolean {
  return shownDestinationFault(object) !== undefined;
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

/**
 * It was the organization's default when a pass last looked, or its namespace may provide it, and it requests it or says
 * that it was. What others request or say wakes nobody.
 */
export function concernsDefault(
  object: CallbackObject,
  { isDefault }: Pick<ObjectMemory, 'isDefault'>,
  allowedNamespaces: readonly string[],
): boolean {
  if (isDefault === true) return true;
  const isMeant = requestsDefault(object) || object.status?.isOrganizationDefault === true;
  return isMeant && isAllowed(object, allowedNamespaces);
}
