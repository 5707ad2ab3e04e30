// Whether the installation still sends to where the alerts of a Monitor go: the address of its inline binding, or that of
// a Callback, of which that object's pass has found it out.
import type { BindingState } from '../../known/binding-directory.ts';
import type { ObjectCache } from '../../known/object-cache.ts';
import {
  DESTINATION_REJECTED,
  type DestinationFacts,
  destinationFault,
  shownDestinationFault,
} from '../../pass/destination.ts';
import type { Fault } from '../../pass/object.ts';
import type { CallbackObject } from '../callback/callback-object.ts';
import type { MonitorWork } from './monitor-work.ts';

export interface MonitorDestinationFacts extends Pick<DestinationFacts, 'checks' | 'periodMs' | 'changed'> {
  state: BindingState;
  callbacks: ObjectCache<CallbackObject>;
}

/** Undefined if alerts have somewhere to go, as far as is known. */
export function monitorDestinationFault(
  work: MonitorWork,
  { state, callbacks, ...facts }: MonitorDestinationFacts,
): Fault | undefined {
  const { object, desired } = work;
  const { binding, projectId } = desired;
  const { target } = state;
  if (binding?.kind === 'inline') {
    if (target === undefined) return shownDestinationFault(object);
    const { endpointId } = target;
    return destinationFault(work, { ...facts, projectId, endpointId, url: binding.url });
  }
  const judged = isRejected(state, projectId, callbacks);
  if (judged === 'unknown') return shownDestinationFault(object);
  if (!judged) return undefined;
  const endpoint =
    state.binding.kind === 'named'
      ? `callback endpoint ${state.binding.alias}`
      : "organization's default callback endpoint";
  const message = `The API sends no alerts to the address of the ${endpoint} any more: see the conditions of its Callback.`;
  return { reason: DESTINATION_REJECTED, message };
}

/**
 * By what this process has found out itself, and never by the status of a Callback. `unknown`: an object stands for the
 * endpoint, as it seems, and no pass has judged it since the start.
 */
function isRejected(
  { binding, target }: BindingState,
  projectId: string,
  callbacks: ObjectCache<CallbackObject>,
): boolean | 'unknown' {
  if (target === undefined) return false;
  const memories = callbacks.listBy('id', target.endpointId).map((callback) => callbacks.memoryOf(callback));
  const judged = memories.filter(
    ({ held, isDefault, isDestinationJudged }) =>
      isDestinationJudged === true &&
      held?.id === target.endpointId &&
      // The default may be in another project, where other endpoints may have the same id.
      (binding.kind === 'organization_default' ? isDefault === true : held.projectId === projectId),
  );
  if (judged.length > 0) return judged.some(({ destination }) => destination?.fault !== undefined);
  return memories.some(({ isDestinationJudged }) => isDestinationJudged !== true) ? 'unknown' : false;
}
