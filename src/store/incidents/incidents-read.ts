// Incidents and timelines as people read them. What changes them is in incidents.ts, under the lock of the monitor's
// live row. Incidents of deleted monitors are read here too, for as long as their rows stay.
import type { Incident, IncidentState, Severity } from '../../domain/incident.ts';
import { type Condition, type KeysetPage, keysetList, type Positioned } from '../postgres/keyset.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import {
  INCIDENT_COLUMNS,
  INCIDENT_ROW,
  type IncidentRow,
  type StoredEntry,
  TIMELINE_ENTRY,
  toIncidentRow,
} from './incidents.ts';

export interface IncidentFilter {
  projectId: string;
  /** One monitor, of the monitor's own route. Goes with its `monitorId`: the index is by that one. */
  monitorKey?: string;
  /** By the public id, in every jurisdiction: also what a deleted monitor left. */
  monitorId?: string;
  jurisdiction?: string;
  state?: IncidentState;
  severity?: Severity;
  /** ms, inclusive, about `openedAt`. */
  sinceMs?: number;
  /** ms, exclusive. */
  untilMs?: number;
}

const list = keysetList(INCIDENT_ROW, {
  from: 'incidents i',
  alias: 'i',
  time: 'opened_at',
  id: 'incident_id',
});

/** Newest first. */
export async function listIncidents(
  db: Queryable,
  filter: IncidentFilter,
  page: KeysetPage,
): Promise<Positioned<IncidentRow>[]> {
  const conditions: Condition[] = [
    ['i.project_id = $', filter.projectId],
    ['i.monitor_key = $', filter.monitorKey],
    ['i.monitor_id = $', filter.monitorId],
    ['i.jurisdiction = $', filter.jurisdiction],
    ['i.state = $', filter.state],
    ['i.severity = $', filter.severity],
    [`i.opened_at >= ${fromMillis('$')}`, filter.sinceMs],
    [`i.opened_at < ${fromMillis('$')}`, filter.untilMs],
  ];
  return await list(db, conditions, page);
}

export async function findIncident(
  db: Queryable,
  projectId: string,
  incidentId: string,
): Promise<IncidentRow | undefined> {
  const { rows } = await db.query({
    name: 'find-incident',
    text: `select ${INCIDENT_COLUMNS} from incidents i where i.project_id = $1 and i.incident_id = $2`,
    values: [projectId, incidentId],
  });
  return rows.map(toIncidentRow)[0];
}

/** The same with the row locked. Lock the monitor's live row before, where there is one. */
export async function lockIncident(
  tx: Queryable,
  projectId: string,
  incidentId: string,
): Promise<Incident | undefined> {
  const { rows } = await tx.query({
    name: 'lock-incident',
    text: `select ${INCIDENT_COLUMNS} from incidents i where i.project_id = $1 and i.incident_id = $2 for update`,
    values: [projectId, incidentId],
  });
  return rows.map((row) => toIncidentRow(row).incident)[0];
}

const listEntries = keysetList(TIMELINE_ENTRY, {
  from: 'timeline_entries t',
  alias: 't',
  time: 'at',
  id: 'entry_id',
  order: 'asc',
});

/** Oldest first, by (at, entry id): an incident's whole timeline is small, so its primary key is index enough. */
export async function listTimeline(
  db: Queryable,
  { projectId, incidentId }: { projectId: string; incidentId: string },
  page: KeysetPage,
): Promise<Positioned<StoredEntry>[]> {
  const conditions: Condition[] = [
    ['t.project_id = $', projectId],
    ['t.incident_id = $', incidentId],
  ];
  return await listEntries(db, conditions, page);
}
