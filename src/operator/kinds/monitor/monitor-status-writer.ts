// Writes the status of a Monitor when it differs, beats alone at most once a period, and tells of incidents that began
// or ended between the status that the object had and the one that it gets.

import { isGone } from '../../../client/api-problem.ts';
import { applyStatus, isSameStatus } from '../../../kube/apply-status.ts';
import type { ConditionFacts } from '../../../kube/conditions.ts';
import type { CachedMonitorStatus } from '../../known/monitor-status-cache.ts';
import type { ObjectMemory } from '../../known/object-memory.ts';
import { type OperatorContext, recordEvent, recordWarning } from '../../operator-context.ts';
import { FIELD_MANAGER } from '../../resources/names.ts';
import { describeIncident, incidentChanges, type OpenIncident } from './incident-changes.ts';
import { MONITORS, type MonitorObject } from './monitor-object.ts';
import { isBeatAlone, monitorStatusOf } from './monitor-status.ts';
import type { MonitorPass } from './monitor-sync.ts';

export interface StatusWrite {
  live: CachedMonitorStatus | undefined;
  conditions: readonly ConditionFacts[];
  /** Default true. */
  isObserved?: boolean;
}

/** Returns after how many ms what was held back may be written; Infinity where nothing was. Throws ApiProblem, KubeError. */
export async function writeMonitorStatus(
  context: OperatorContext,
  pass: MonitorPass,
  { live, conditions, isObserved }: StatusWrite,
): Promise<number> {
  const { object, memory, fields, record, signal } = pass;
  const status = monitorStatusOf({
    ...{ object, live, record, fields, conditions, isObserved },
    nowMs: Date.now(),
  });
  if (isSameStatus(object.status, status)) return Number.POSITIVE_INFINITY;
  if (isBeatAlone(object.status, status)) {
    const waitMs = beatWaitMs(context, object, memory);
    if (waitMs > 0) return waitMs;
    memory.beatWrittenAtMs = performance.now();
  }
  if (live !== undefined) await recordIncidents(context, pass, live);
  const apply = { object, status, fieldManager: FIELD_MANAGER, signal };
  pass.object = (await applyStatus(context.kube, MONITORS, apply)) ?? object;
  context.metrics.statusWrites.inc({ kind: 'Monitor' });
  return Number.POSITIVE_INFINITY;
}

/** Since the last write that we remember, and, after a restart, since the beat that the status has. */
function beatWaitMs({ settings }: OperatorContext, { status }: MonitorObject, memory: ObjectMemory): number {
  const period = settings.lastBeatPeriodMs;
  const { beatWrittenAtMs } = memory;
  if (beatWrittenAtMs !== undefined) return beatWrittenAtMs + period - performance.now();
  return status?.lastBeatAt === undefined ? 0 : Date.parse(status.lastBeatAt) + period - Date.now();
}

async function recordIncidents(
  context: OperatorContext,
  pass: MonitorPass,
  live: CachedMonitorStatus,
): Promise<void> {
  const { object } = pass;
  const { opened, ended } = incidentChanges(object.status?.openIncidents, live.status.openIncidents);
  // Asked before anything is told or written: what fails here is done again as a whole.
  const ends: (readonly [OpenIncident, string])[] = [];
  for (const incident of ended) ends.push([incident, await endOf(context, pass, incident)]);
  for (const incident of opened) recordWarning(context, object, 'IncidentOpened', describeIncident(incident));
  for (const [incident, reason] of ends) recordEvent(context, object, reason, describeIncident(incident));
}

/** The status that an incident ended in. One that is gone was resolved by the deletion of its monitor. */
async function endOf(
  context: OperatorContext,
  { object, fields, signal }: MonitorPass,
  { incidentId }: OpenIncident,
): Promise<'IncidentRecovered' | 'IncidentResolved'> {
  const project = fields.projectId ?? object.status?.projectId;
  try {
    const { body } = await context.api.call('getIncident', { params: { incidentId } }, { project, signal });
    return body.state === 'recovered' ? 'IncidentRecovered' : 'IncidentResolved';
  } catch (error) {
    if (isGone(error)) return 'IncidentResolved';
    throw error;
  }
}
