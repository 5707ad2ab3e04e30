// Incidents and their timelines, as the state machine sees them. Who writes holds the lock of the monitor's live row,
// so that an incident has one writer at a time; the unique index incidents_one_open is the second wall.

import { newUuid } from '../../domain/id.ts';
import type { Actor, Incident, TimelineEntry } from '../../domain/incident.ts';
import type { MonitorRef } from '../monitors/live.ts';
import { plainArray, sparseArray, textList, textListSql } from '../postgres/plain-array.ts';
import type { Queryable } from '../postgres/pool.ts';

/** An incident with what it holds of its monitor, which it outlives. */
export interface IncidentRow extends MonitorRef {
  monitorId: string;
  jurisdiction: string;
  incident: Incident;
}

/** What each SELECT of incidents names; `i` is the table. Times are milliseconds. */
export const INCIDENT_COLUMNS = `i.project_id, i.incident_id, i.monitor_key, i.monitor_id, i.jurisdiction, i.kind,
  i.state, i.severity, i.measurement, i.rule, ${[
    'opened_at',
    'deadline_at',
    'recovering_at',
    'recovered_at',
    'resolved_at',
    'acknowledged_at',
    'alerted_at',
  ]
    .map((column) => `(extract(epoch from i.${column}) * 1000)::bigint as ${column}`)
    .join(', ')},
  i.acknowledged_by, i.open_sequence, i.last_sequence, i.violation_count, i.summary, i.recovery_count,
  i.event_sequence`;

export interface IncidentColumns {
  project_id: string;
  incident_id: string;
  monitor_key: string;
  monitor_id: string;
  jurisdiction: string;
  kind: Incident['kind'];
  state: Incident['state'];
  severity: Incident['severity'];
  measurement: string | null;
  rule: string | null;
  opened_at: number;
  deadline_at: number | null;
  recovering_at: number | null;
  recovered_at: number | null;
  resolved_at: number | null;
  acknowledged_at: number | null;
  alerted_at: number | null;
  acknowledged_by: Actor | null;
  open_sequence: number | null;
  last_sequence: number | null;
  violation_count: number;
  summary: string;
  recovery_count: number;
  event_sequence: number;
}

/** Turns a row that was selected with INCIDENT_COLUMNS into an IncidentRow. */
export function toIncidentRow(row: IncidentColumns): IncidentRow {
  return {
    projectId: row.project_id,
    monitorKey: row.monitor_key,
    monitorId: row.monitor_id,
    jurisdiction: row.jurisdiction,
    incident: {
      incidentId: row.incident_id,
      kind: row.kind,
      state: row.state,
      severity: row.severity,
      measurement: row.measurement ?? undefined,
      rule: row.rule ?? undefined,
      openedMs: row.opened_at,
      deadlineMs: row.deadline_at ?? undefined,
      recoveringMs: row.recovering_at ?? undefined,
      recoveredMs: row.recovered_at ?? undefined,
      resolvedMs: row.resolved_at ?? undefined,
      acknowledgedMs: row.acknowledged_at ?? undefined,
      alertedMs: row.alerted_at ?? undefined,
      acknowledgedBy: row.acknowledged_by ?? undefined,
      openSequence: row.open_sequence ?? undefined,
      lastSequence: row.last_sequence ?? undefined,
      violationCount: row.violation_count,
      summary: row.summary,
      recoveryCount: row.recovery_count,
      eventSequence: row.event_sequence,
    },
  };
}

/** The not-ended incidents of monitors, by monitor key, oldest first (index incidents_one_open). */
export async function findOpenIncidents(
  db: Queryable,
  refs: readonly MonitorRef[],
): Promise<Map<string, Incident[]>> {
  const found = new Map<string, Incident[]>();
  if (refs.length === 0) return found;
  const { rows } = await db.query<IncidentColumns>({
    name: 'find-open-incidents',
    text: `select ${INCIDENT_COLUMNS} from incidents i
      where (i.project_id, i.monitor_key) in (select * from unnest($1::uuid[], $2::uuid[]))
        and i.state in ('open', 'recovering')
      order by i.opened_at, i.incident_id`,
    values: [refs.map((ref) => ref.projectId), refs.map((ref) => ref.monitorKey)],
  });
  for (const row of rows) {
    const { monitorKey, incident } = toIncidentRow(row);
    const list = found.get(monitorKey);
    if (list) list.push(incident);
    else found.set(monitorKey, [incident]);
  }
  return found;
}

/** The columns of an updated incident: its keys, and what may change. */
const UPDATED = `project_id uuid, incident_id text, state text, severity text, deadline_at bigint, recovering_at bigint,
  recovered_at bigint, resolved_at bigint, acknowledged_at bigint, alerted_at bigint, acknowledged_by jsonb,
  last_sequence bigint, violation_count integer, summary text, recovery_count smallint, event_sequence integer`;

const time = (column: string) => `to_timestamp(v.${column} / 1000.0)`;

const INSERT_INCIDENTS = `insert into incidents
    (project_id, incident_id, monitor_key, monitor_id, jurisdiction, kind, state, severity, measurement, rule,
     opened_at, deadline_at, recovering_at, recovered_at, resolved_at, acknowledged_at, alerted_at, acknowledged_by,
     open_sequence, last_sequence, violation_count, summary, recovery_count, event_sequence)
  select v.project_id, v.incident_id, v.monitor_key, v.monitor_id, v.jurisdiction, v.kind, v.state, v.severity,
     v.measurement, v.rule, ${time('opened_at')}, ${time('deadline_at')}, ${time('recovering_at')},
     ${time('recovered_at')}, ${time('resolved_at')}, ${time('acknowledged_at')}, ${time('alerted_at')},
     v.acknowledged_by, v.open_sequence, v.last_sequence, v.violation_count, v.summary, v.recovery_count,
     v.event_sequence
  from unnest($1::uuid[], $2::text[], $3::uuid[], ${textListSql('$4')}, $5::text[], $6::text[], $7::text[],
    $8::text[], ${textListSql('$9')}, $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[],
    $15::bigint[], $16::bigint[], $17::bigint[], $18::jsonb[], $19::bigint[], $20::bigint[], $21::integer[],
    ${textListSql('$22')}, $23::smallint[], $24::integer[])
    as v (project_id, incident_id, monitor_key, monitor_id, jurisdiction, kind, state, severity, measurement, rule,
      opened_at, deadline_at, recovering_at, recovered_at, resolved_at, acknowledged_at, alerted_at,
      acknowledged_by, open_sequence, last_sequence, violation_count, summary, recovery_count, event_sequence)`;

/**
 * Inserts new incidents. A second not-ended one of the same cause is a unique violation: the transaction fails.
 * As arrays: ten thousand at one instant cost Postgres half of what they cost as JSON.
 */
export async function insertIncidents(tx: Queryable, rows: readonly IncidentRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query({ name: 'insert-incidents', text: INSERT_INCIDENTS, values: toArrays(rows) });
}

/** In the order of INSERT_INCIDENTS. */
function toArrays(rows: readonly IncidentRow[]): unknown[] {
  const plain = (read: (incident: Incident) => string | number | undefined) =>
    plainArray(rows.map(({ incident }) => read(incident)));
  return [
    plainArray(rows.map((row) => row.projectId)),
    plain((incident) => incident.incidentId),
    plainArray(rows.map((row) => row.monitorKey)),
    textList(rows.map((row) => row.monitorId)),
    plainArray(rows.map((row) => row.jurisdiction)),
    plain((incident) => incident.kind),
    plain((incident) => incident.state),
    plain((incident) => incident.severity),
    textList(rows.map(({ incident }) => incident.measurement)),
    plain((incident) => incident.rule),
    plain((incident) => incident.openedMs),
    plain((incident) => incident.deadlineMs),
    plain((incident) => incident.recoveringMs),
    plain((incident) => incident.recoveredMs),
    plain((incident) => incident.resolvedMs),
    plain((incident) => incident.acknowledgedMs),
    plain((incident) => incident.alertedMs),
    sparseArray(
      rows.map(({ incident }) => incident.acknowledgedBy && JSON.stringify(incident.acknowledgedBy)),
    ),
    plain((incident) => incident.openSequence),
    plain((incident) => incident.lastSequence),
    plain((incident) => incident.violationCount),
    textList(rows.map(({ incident }) => incident.summary)),
    plain((incident) => incident.recoveryCount),
    plain((incident) => incident.eventSequence),
  ];
}

const UPDATE_INCIDENTS = `update incidents i set
    state = v.state, severity = v.severity, deadline_at = ${time('deadline_at')},
    recovering_at = ${time('recovering_at')}, recovered_at = ${time('recovered_at')},
    resolved_at = ${time('resolved_at')}, acknowledged_at = ${time('acknowledged_at')},
    alerted_at = ${time('alerted_at')}, acknowledged_by = v.acknowledged_by, last_sequence = v.last_sequence,
    violation_count = v.violation_count, summary = v.summary, recovery_count = v.recovery_count,
    event_sequence = v.event_sequence
  from jsonb_to_recordset($1::jsonb) as v (${UPDATED})
  where i.project_id = v.project_id and i.incident_id = v.incident_id`;

export async function updateIncidents(tx: Queryable, rows: readonly IncidentRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query({ name: 'update-incidents', text: UPDATE_INCIDENTS, values: [toJson(rows)] });
}

function toJson(rows: readonly IncidentRow[]): string {
  return JSON.stringify(
    rows.map(({ projectId, incident }) => ({
      project_id: projectId,
      incident_id: incident.incidentId,
      state: incident.state,
      severity: incident.severity,
      deadline_at: incident.deadlineMs,
      recovering_at: incident.recoveringMs,
      recovered_at: incident.recoveredMs,
      resolved_at: incident.resolvedMs,
      acknowledged_at: incident.acknowledgedMs,
      alerted_at: incident.alertedMs,
      acknowledged_by: incident.acknowledgedBy,
      last_sequence: incident.lastSequence,
      violation_count: incident.violationCount,
      summary: incident.summary,
      recovery_count: incident.recoveryCount,
      event_sequence: incident.eventSequence,
    })),
  );
}

/** `delivery`: what the timeline shows of a delivery. */
export type StoredEntry = TimelineEntry & { delivery?: { deliveryId: string; [fact: string]: unknown } };

/** An entry to append. */
export interface TimelineRow {
  projectId: string;
  incidentId: string;
  entry: StoredEntry;
}

/** Appends entries. Their order is (at, entry id); ids are made in order, so that entries of one moment keep theirs. */
export async function insertTimelineEntries(tx: Queryable, rows: readonly TimelineRow[]): Promise<void> {
  if (rows.length === 0) return;
  const entries = rows.map(({ entry }) => entry);
  const texts = (read: (entry: TimelineRow['entry']) => string | undefined) => sparseArray(entries.map(read));
  const json = (value: object | undefined) => value && JSON.stringify(value);
  await tx.query({
    name: 'insert-timeline-entries',
    text: `insert into timeline_entries
        (project_id, incident_id, entry_id, at, type, from_state, to_state, actor, note, delivery, detail)
      select v.project_id, v.incident_id, v.entry_id, ${time('at')}, v.type, v.from_state, v.to_state, v.actor,
        v.note, v.delivery, v.detail
      from unnest($1::uuid[], $2::text[], $3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::jsonb[],
        $9::text[], $10::jsonb[], $11::jsonb[])
        as v (project_id, incident_id, entry_id, at, type, from_state, to_state, actor, note, delivery, detail)`,
    values: [
      plainArray(rows.map((row) => row.projectId)),
      plainArray(rows.map((row) => row.incidentId)),
      plainArray(rows.map((_, index) => orderedUuid(index))),
      plainArray(entries.map((entry) => entry.atMs)),
      plainArray(entries.map((entry) => entry.type)),
      plainArray(entries.map((entry) => entry.from)),
      plainArray(entries.map((entry) => entry.to)),
      texts((entry) => json(entry.actor)),
      texts((entry) => entry.note),
      texts((entry) => json(entry.delivery)),
      texts((entry) => json(entry.detail)),
    ],
  });
}

/** A UUIDv7 whose counter field (rand_a, RFC 9562 6.2) is the place in the batch. */
function orderedUuid(index: number): string {
  const uuid = newUuid();
  return `${uuid.slice(0, 15)}${(index & 0xfff).toString(16).padStart(3, '0')}${uuid.slice(18)}`;
}
