// Incidents and timelines as people read them. What changes them is in incidents.ts, under the lock of the monitor's
// live row. Incidents of deleted monitors are read here too, for as long as their rows stay.
import type { Incident, IncidentState, Severity } from '../../domain/incident.ts';
import { parameters, rowReader, selectList } from '../postgres/columns.ts';
import {
  type KeysetPage,
  type Positioned,
  positionColumn,
  positionedReader,
  positionSql,
} from '../postgres/keyset.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import {
  INCIDENT_COLUMNS,
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

const toListedIncident = positionedReader(toIncidentRow, 'incident_id');

/** Newest first. Not a named statement: each set of filters has its own plan and index. */
export async function listIncidents(
  db: Queryable,
  filter: IncidentFilter,
  page: KeysetPage,
): Promise<Positioned<IncidentRow>[]> {
  const { values, bind } = parameters();
  const conditions: [value: unknown, sql: (parameter: string) => string][] = [
    [filter.projectId, (parameter) => `i.project_id = ${parameter}`],
    [filter.monitorKey, (parameter) => `i.monitor_key = ${parameter}`],
    [filter.monitorId, (parameter) => `i.monitor_id = ${parameter}`],
    [filter.jurisdiction, (parameter) => `i.jurisdiction = ${parameter}`],
    [filter.state, (parameter) => `i.state = ${parameter}`],
    [filter.severity, (parameter) => `i.severity = ${parameter}`],
    [filter.sinceMs, (parameter) => `i.opened_at >= ${fromMillis(parameter)}`],
    [filter.untilMs, (parameter) => `i.opened_at < ${fromMillis(parameter)}`],
  ];
  const where = conditions.flatMap(([value, sql]) => (value === undefined ? [] : sql(bind(value))));
  if (page.after) where.push(`(i.opened_at, i.incident_id) < ${positionSql(page.after, bind)}`);
  const { rows } = await db.query(
    `select ${INCIDENT_COLUMNS}, ${positionColumn('i.opened_at')} from incidents i
     where ${where.join(' and ')}
     order by i.opened_at desc, i.incident_id desc limit ${bind(page.limit)}`,
    values,
  );
  return rows.map(toListedIncident);
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

const toListedEntry = positionedReader(rowReader(TIMELINE_ENTRY), 'entry_id');

/** Oldest first, by (at, entry id): an incident's whole timeline is small, so its primary key is index enough. */
export async function listTimeline(
  db: Queryable,
  { projectId, incidentId }: { projectId: string; incidentId: string },
  page: KeysetPage,
): Promise<Positioned<StoredEntry>[]> {
  const { values, bind } = parameters();
  const where = [`t.project_id = ${bind(projectId)}`, `t.incident_id = ${bind(incidentId)}`];
  if (page.after) where.push(`(t.at, t.entry_id) > ${positionSql(page.after, bind)}`);
  const { rows } = await db.query(
    `select t.entry_id, ${selectList(TIMELINE_ENTRY, 't')}, ${positionColumn('t.at')}
     from timeline_entries t where ${where.join(' and ')}
     order by t.at, t.entry_id limit ${bind(page.limit)}`,
    values,
  );
  return rows.map(toListedEntry);
}
