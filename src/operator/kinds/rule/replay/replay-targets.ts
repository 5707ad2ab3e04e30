// Which Monitors a replay asks about, and whether it can ask about one now. Pure.
import type { Held } from '../../../pass/identity.ts';
import { idOf } from '../../../pass/identity.ts';
import { MONITOR_IDENTITY, type MonitorObject } from '../../monitor/monitor-object.ts';
import { statesItself } from '../apply/given-rules.ts';
import { unsyncedFault } from '../unsynced.ts';
import type { ReplayOutcome } from './replay-progress.ts';

/** `pending`: a pass of the Monitor is to come, or the API is away. */
export type TargetState =
  | { kind: 'ready'; monitor: Pick<Held, 'id' | 'projectId'> }
  | { kind: 'pending' }
  | { kind: 'omitted'; outcome: ReplayOutcome };

/**
 * What a pass of this process gave to the Monitor counts, never what its status says: nobody may replay the monitor of
 * another by a forged status. `held` is that.
 */
export function targetStateOf(
  object: MonitorObject,
  held: Held | undefined,
  measurementKey: string,
): TargetState {
  if (statesItself(object, measurementKey)) {
    const message = `The Monitor sets ${measurementKey} itself, which wins over every Rule.`;
    return { kind: 'omitted', outcome: { omission: { reason: 'SetByMonitor', message } } };
  }
  const message = unsyncedFault(object);
  if (message !== undefined) {
    return { kind: 'omitted', outcome: { omission: { reason: 'NotSynced', message } } };
  }
  if (held === undefined || held.id !== idOf(MONITOR_IDENTITY, object)) return { kind: 'pending' };
  return { kind: 'ready', monitor: { id: held.id, projectId: held.projectId } };
}

/** Oldest first, so that Monitors that come while a replay goes on stand at its end. */
export function placeOf({ metadata: { creationTimestamp = '', uid = '' } }: MonitorObject): string {
  return `${creationTimestamp}/${uid}`;
}
