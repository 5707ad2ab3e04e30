// The end of a Monitor: its monitor is archived, deleted or left.

import { isGone } from '../../../client/api-problem.ts';
import { type OperatorContext, projectNameOf, recordEvent } from '../../operator-context.ts';
import { findHolder, hasConflictingClaim } from '../../pass/conflicting-claims.ts';
import { finalizeObject } from '../../pass/finalize-object.ts';
import { monitorIdOf, ownId } from '../../resources/identity.ts';
import { ANNOTATION } from '../../resources/names.ts';
import { MonitorHandle } from './monitor-handle.ts';
import { MONITORS, type MonitorObject } from './monitor-object.ts';
import { publishSecretNameOf } from './wanted-monitor.ts';

/** Throws ApiProblem while the API does not let the monitor go, unless the object is forced; KubeError. */
export async function finalizeMonitor(
  context: OperatorContext,
  object: MonitorObject,
  signal?: AbortSignal,
): Promise<void> {
  await finalizeObject(
    context,
    { resource: MONITORS, object },
    {
      leave: () => leaveMonitorOf(context, object, signal),
      secretNames: [publishSecretNameOf(object), object.status?.publishSecretRef?.name],
    },
  );
}

async function leaveMonitorOf(
  context: OperatorContext,
  object: MonitorObject,
  signal: AbortSignal | undefined,
): Promise<void> {
  await leaveFormerMonitor(context, object, { monitorId: monitorIdOf(object), signal });
  if (object.spec.deletionPolicy === 'Orphan' || !isOurs(context, object)) return;
  const projectId = object.status?.projectId ?? (await context.projects.find(projectNameOf(context, object)));
  if (projectId === undefined) return;
  await leaveMonitor(context, object, { projectId, monitorId: monitorIdOf(object), signal });
}

/** An object that never had the monitor which it names, or lost it to another object, takes nothing away. */
function isOurs(context: OperatorContext, object: MonitorObject): boolean {
  // The mark is set before anything is made.
  if (object.metadata.annotations?.[ANNOTATION.monitorId] === undefined) return false;
  const id = monitorIdOf(object);
  if (id !== ownId('mon', object) && object.status?.monitorId !== id) return false;
  return findHolder(context, { store: context.monitors, object, id }) === object;
}

/**
 * The monitor that stood for the object while its annotation named that one: ends as at a deletion, so that nobody's
 * monitor is left to alert. One that another object names now is that one's. `monitorId` is the one named now.
 * Throws ApiProblem.
 */
export async function leaveFormerMonitor(
  context: OperatorContext,
  object: MonitorObject,
  { monitorId, signal }: { monitorId: string; signal?: AbortSignal },
): Promise<void> {
  const { projectId, monitorId: former } = object.status ?? {};
  if (projectId === undefined || former === undefined || former === monitorId) return;
  if (hasConflictingClaim(context, { store: context.monitors, object, id: former })) return;
  await leaveMonitor(context, object, { projectId, monitorId: former, signal });
}

/** Archives or deletes a monitor, as the object's policy says. Fine if it is gone. Throws ApiProblem. */
export async function leaveMonitor(
  context: OperatorContext,
  object: MonitorObject,
  name: { projectId: string; monitorId: string; signal?: AbortSignal },
): Promise<void> {
  const { deletionPolicy, jurisdiction } = object.spec;
  if (deletionPolicy === 'Orphan') return;
  const handle = new MonitorHandle(context.api, { ...name, uid: object.metadata.uid ?? '' });
  const record = await handle.read(jurisdiction);
  if (record === undefined) return;
  try {
    if (deletionPolicy === 'Delete') {
      await handle.delete();
      recordEvent(context, object, 'Deleted', `Deleted the monitor ${name.monitorId}.`);
    } else if (record.lifecycle !== 'archived') {
      await handle.changeLifecycle({ action: 'archive' });
      recordEvent(
        context,
        object,
        'Archived',
        `Archived the monitor ${name.monitorId}; it can be restored for 30 days.`,
      );
    }
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}
