// Incidents that have begun or ended between two statuses of a Monitor. Level-based: whatever happened in between. Pure.
import type { MonitorStatus } from '../../../contract/resources/monitor.ts';

export type OpenIncident = MonitorStatus['openIncidents'][number];

export interface IncidentChanges {
  opened: OpenIncident[];
  /** Neither open nor recovering any more: recovered or resolved, the API knows which. */
  ended: OpenIncident[];
}

export function incidentChanges(
  before: readonly OpenIncident[] | undefined,
  after: readonly OpenIncident[],
): IncidentChanges {
  const known = new Set(before?.map(({ incidentId }) => incidentId));
  const open = new Set(after.map(({ incidentId }) => incidentId));
  return {
    opened: after.filter(({ incidentId }) => !known.has(incidentId)),
    ended: (before ?? []).filter(({ incidentId }) => !open.has(incidentId)),
  };
}

/** `missed_deadline (critical), open since 2026-01-31T09:00:00Z, incident inc_…`. */
export function describeIncident({ kind, severity, openedAt, incidentId }: OpenIncident): string {
  return `${kind} (${severity}), open since ${openedAt}, incident ${incidentId}.`;
}
