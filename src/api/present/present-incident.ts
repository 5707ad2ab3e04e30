// Incidents and their timelines as the API shows them (docs/contract/incidents.md).
import type { TimelineEntry } from '../../contract/resources/incident.ts';
import { type IncidentRecord, toIncidentRecord } from '../../domain/incident-record.ts';
import { toTime } from '../../domain/timestamp.ts';
import type { IncidentRow, StoredEntry } from '../../store/incidents/incidents.ts';

export function presentIncident(row: IncidentRow): IncidentRecord {
  return toIncidentRecord(row, row.incident);
}

export function presentTimelineEntry({ atMs, ...entry }: StoredEntry): TimelineEntry {
  return { at: toTime(atMs), ...entry };
}
