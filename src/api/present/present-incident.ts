// Incidents and their timelines as the API shows them (docs/contract/incidents.md).
import type { Incident, TimelineEntry } from '../../contract/resources/incident.ts';
import { type IncidentRecord, toIncidentRecord } from '../../domain/incident-record.ts';
import { toTime } from '../../domain/timestamp.ts';
import type { ListedIncident, StoredEntry } from '../../store/incidents/incidents.ts';

export function presentIncident({
  suppresses,
  monitorName,
  ...row
}: ListedIncident): IncidentRecord & Pick<Incident, 'suppresses' | 'monitorName'> {
  const record = { ...toIncidentRecord(row, row.incident), monitorName };
  return suppresses === 0 ? record : { ...record, suppresses };
}

export function presentTimelineEntry({ atMs, ...entry }: StoredEntry): TimelineEntry {
  return { at: toTime(atMs), ...entry };
}
