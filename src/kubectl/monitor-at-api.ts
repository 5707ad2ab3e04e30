// The monitor of a Monitor, as the API has it. Whoever may write a status may forge its ids, so before a command acts on a
// monitor the API must say that it is of this object (docs/contract/kubernetes.md, "What the status may say").
import type { OperationOutput } from '../contract/operations/operations.ts';
import type { ApiAccess } from './api-access.ts';
import { conditionOf, type MonitorObject } from './objects.ts';
import { Refusal } from './refusal.ts';

export type MonitorRecord = OperationOutput<'getMonitor'>;

export interface MonitorRef {
  monitorId: string;
  /** Id or name. */
  project: string;
}

/** What the status names, which is not to be believed yet. Throws a Refusal if it names nothing. */
export function namedMonitor(monitor: MonitorObject): MonitorRef {
  const { monitorId, projectId: project } = monitor.status ?? {};
  if (monitorId === undefined || project === undefined) {
    const why = conditionOf(monitor, 'Ready')?.message ?? 'no operator has looked at it yet';
    throw new Refusal(`The API has no monitor of the Monitor ${monitor.metadata.name} yet: ${why}`);
  }
  return { monitorId, project };
}

/** Throws a Refusal if the status names the monitor of something else. */
export async function readMonitorAtApi(access: ApiAccess, monitor: MonitorObject): Promise<MonitorRecord> {
  const record = await readRecord(access, namedMonitor(monitor));
  if (!isMonitorOf(monitor, record)) throw new Refusal(describeForged(monitor, record));
  return record;
}

export async function readRecord(
  access: ApiAccess,
  { monitorId, project }: MonitorRef,
): Promise<MonitorRecord> {
  try {
    return (await access.client.call('getMonitor', { params: { monitorId } }, { project })).body;
  } catch (error) {
    throw access.explain(error);
  }
}

/**
 * An id that follows from the UID is of no other object; of one that was taken over the operator alone sets the origin. Its
 * UID only the operator sees.
 */
export function isMonitorOf(
  { metadata }: MonitorObject,
  { monitorId, origin }: Pick<MonitorRecord, 'monitorId' | 'origin'>,
): boolean {
  if (metadata.uid !== undefined && monitorId === `mon_${metadata.uid.replaceAll('-', '')}`) return true;
  return (
    origin?.kind === 'Monitor' && origin.namespace === metadata.namespace && origin.name === metadata.name
  );
}

function describeForged({ metadata }: MonitorObject, { monitorId, origin }: MonitorRecord): string {
  const whose = origin === undefined ? 'no object' : `the ${origin.kind} ${origin.namespace}/${origin.name}`;
  return `The status of the Monitor ${metadata.name} names the monitor ${monitorId}, which the API has for ${whose}: see that the operator runs, it puts the status right.`;
}
