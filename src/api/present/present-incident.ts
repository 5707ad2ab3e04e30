// Incidents and their timelines as the API shows them (docs/contract/incidents.md).
import type { TimelineEntry } from '../../contract/resources/incident.ts';
import { type IncidentRecord, toIncidentRecord } from '../../domain/incident-record.ts';
import { toTime } from '../../domain/timestamp.ts';
import type { ListedIncident, StoredEntry } from '../../store/incidents/incidents.ts';

export function presentIncident(row: ListedIncident): IncidentRecord & { suppresses?: number } {
  const record = toIncidentRecord(row, row.incident);
  return row.suppresses === 0 ? record : { ...record, suppresses: row.suppresses };
}

export function presentTimelineEntry({ atMs, ...entry }: StoredEntry): TimelineEntry {
  return { at: toTime(atMs), ...entry };
}
