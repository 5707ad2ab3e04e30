// The end of a Monitor: its monitor is archived, deleted or left, its Secret goes, then the finalizer.
import { hasFinalizer, removeFinalizer } from '../kube/finalizers.ts';
import { MonitorHandle } from './monitor-handle.ts';
import { type OperatorContext, projectNameOf, tell } from './operator-context.ts';
import { deleteOwnedSecret } from './owned-secret.ts';
import { MONITORS, type MonitorObject } from './resources/monitor-resource.ts';
import { ANNOTATION, FINALIZER, SECRET_SUFFIX } from './resources/names.ts';
import { ApiProblem, isGone } from './rest/api-problem.ts';
import { findHolder } from './rivals.ts';
import { monitorIdOf, ownId } from './translate/identity.ts';

/** Throws ApiProblem while the API does not let the monitor go, unless the object is forced; KubeError. */
export async function finalizeMonitor(
  context: OperatorContext,
  object: MonitorObject,
  signal?: AbortSignal,
): Promise<void> {
  if (!hasFinalizer(object, FINALIZER)) return;
  await unlessForced(context, object, () => leaveMonitorOf(context, object, signal));
  for (const name of secretNames(object)) {
    await deleteOwnedSecret(context.kube, { resource: MONITORS, object }, name);
  }
  await removeFinalizer(context.kube, MONITORS, object, FINALIZER);
}

/** With `force-delete` what the API says, or that it says nothing, holds nobody up. */
export async function unlessForced(
  { log }: OperatorContext,
  object: MonitorObject | { metadata: MonitorObject['metadata'] },
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    const isForced = object.metadata.annotations?.[ANNOTATION.forceDelete] === 'true';
    if (!isForced || !(error instanceof ApiProblem)) throw error;
    const { namespace, name } = object.metadata;
    log.warn({ err: error, namespace, name }, 'Let an object go without the API: it is forced.');
  }
}

async function leaveMonitorOf(
  context: OperatorContext,
  object: MonitorObject,
  signal: AbortSignal | undefined,
): Promise<void> {
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
      tell(context, object, 'Deleted', `Deleted the monitor ${name.monitorId}.`);
    } else if (record.lifecycle !== 'archived') {
      await handle.changeLifecycle({ action: 'archive' });
      tell(
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

function secretNames({ metadata, spec, status }: MonitorObject): Set<string> {
  const wanted = spec.publishSecretName ?? `${metadata.name}${SECRET_SUFFIX.monitor}`;
  return new Set([wanted, status?.publishSecretRef?.name ?? wanted]);
}
