// Incidents and timelines as people read them. What changes them is in incidents.ts, under the lock of the monitor's
// live row. Incidents of deleted monitors are read here too, for as long as their rows stay.
import type { Incident, IncidentState, Severity, TimelineEntry } from '../../domain/incident.ts';
import { fromMicros, type KeysetPage, micros, type Positioned } from '../postgres/keyset.ts';
import type { Queryable } from '../postgres/pool.ts';
import {
  INCIDENT_COLUMNS,
  type IncidentColumns,
  type IncidentRow,
  type StoredEntry,
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

const OPENED_US = `${micros('i.opened_at')} as opened_us`;

/** Newest first. Not a named statement: each set of filters has its own plan and index. */
export async function listIncidents(
  db: Queryable,
  filter: IncidentFilter,
  page: KeysetPage,
): Promise<Positioned<IncidentRow>[]> {
  const { where, values } = toConditions(filter);
  const bind = (value: unknown) => `$${values.push(value)}`;
  if (page.after) {
    where.push(
      `(i.opened_at, i.incident_id) < (${fromMicros(bind(page.after.micros))}, ${bind(page.after.id)})`,
    );
  }
  const { rows } = await db.query<IncidentColumns & { opened_us: number }>(
    `select ${INCIDENT_COLUMNS}, ${OPENED_US} from incidents i where ${where.join(' and ')}
     order by i.opened_at desc, i.incident_id desc limit ${bind(page.limit)}`,
    values,
  );
  return rows.map((row) => ({
    item: toIncidentRow(row),
    position: { micros: row.opened_us, id: row.incident_id },
  }));
}

function toConditions(filter: IncidentFilter): { where: string[]; values: unknown[] } {
  const values: unknown[] = [];
  const conditions: [(parameter: string) => string, unknown][] = [
    [(parameter) => `i.project_id = ${parameter}`, filter.projectId],
    [(parameter) => `i.monitor_key = ${parameter}`, filter.monitorKey],
    [(parameter) => `i.monitor_id = ${parameter}`, filter.monitorId],
    [(parameter) => `i.jurisdiction = ${parameter}`, filter.jurisdiction],
    [(parameter) => `i.state = ${parameter}`, filter.state],
    [(parameter) => `i.severity = ${parameter}`, filter.severity],
    [(parameter) => `i.opened_at >= to_timestamp(${parameter} / 1000.0)`, filter.sinceMs],
    [(parameter) => `i.opened_at < to_timestamp(${parameter} / 1000.0)`, filter.untilMs],
  ];
  const stated = conditions.filter(([, value]) => value !== undefined);
  return { where: stated.map(([condition, value]) => condition(`$${values.push(value)}`)), values };
}

export async function findIncident(
  db: Queryable,
  projectId: string,
  incidentId: string,
): Promise<IncidentRow | undefined> {
  const { rows } = await db.query<IncidentColumns>({
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
  const { rows } = await tx.query<IncidentColumns>({
    name: 'lock-incident',
    text: `select ${INCIDENT_COLUMNS} from incidents i where i.project_id = $1 and i.incident_id = $2 for update`,
    values: [projectId, incidentId],
  });
  return rows.map((row) => toIncidentRow(row).incident)[0];
}

interface EntryColumns {
  entry_id: string;
  at_us: number;
  type: TimelineEntry['type'];
  from_state: IncidentState | null;
  to_state: IncidentState | null;
  actor: TimelineEntry['actor'] | null;
  note: string | null;
  delivery: StoredEntry['delivery'] | null;
  detail: Record<string, unknown> | null;
}

/** Oldest first, by (at, entry id): an incident's whole timeline is small, so its primary key is index enough. */
export async function listTimeline(
  db: Queryable,
  { projectId, incidentId }: { projectId: string; incidentId: string },
  { limit, after }: KeysetPage,
): Promise<Positioned<StoredEntry>[]> {
  const beyond = after ? `and (t.at, t.entry_id) > (${fromMicros('$4')}, $5::uuid)` : '';
  const values = [projectId, incidentId, limit];
  const { rows } = await db.query<EntryColumns>(
    `select t.entry_id, ${micros('t.at')} as at_us, t.type, t.from_state, t.to_state, t.actor, t.note, t.delivery,
       t.detail
     from timeline_entries t where t.project_id = $1 and t.incident_id = $2 ${beyond}
     order by t.at, t.entry_id limit $3`,
    after ? [...values, after.micros, after.id] : values,
  );
  return rows.map(toStoredEntry);
}

function toStoredEntry(row: EntryColumns): Positioned<StoredEntry> {
  return {
    position: { micros: row.at_us, id: row.entry_id },
    item: {
      type: row.type,
      atMs: Math.floor(row.at_us / 1000),
      from: row.from_state ?? undefined,
      to: row.to_state ?? undefined,
      actor: row.actor ?? undefined,
      note: row.note ?? undefined,
      delivery: row.delivery ?? undefined,
      detail: row.detail ?? undefined,
    },
  };
}
