// Incidents and their timelines, as the state machine sees them. Who writes holds the lock of the monitor's live row,
// so that an incident has one writer at a time; the unique index incidents_one_open is the second wall.

import { newUuid } from '../../domain/id.ts';
import type { Actor, Incident, TimelineEntry } from '../../domain/incident.ts';
import { MONITOR_REF, type MonitorRef } from '../monitors/live.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import type { Queryable } from '../postgres/pool.ts';

/** An incident with what it holds of its monitor, which it outlives. */
export interface IncidentRow extends MonitorRef {
  monitorId: string;
  jurisdiction: string;
  incident: Incident;
}

/** What an update may change. */
const CHANGEABLE = {
  state: column.plain<Incident['state']>('state', 'text'),
  severity: column.plain<Incident['severity']>('severity', 'text'),
  deadlineMs: column.moment('deadline_at'),
  recoveringMs: column.moment('recovering_at'),
  recoveredMs: column.moment('recovered_at'),
  resolvedMs: column.moment('resolved_at'),
  acknowledgedMs: column.moment('acknowledged_at'),
  alertedMs: column.moment('alerted_at'),
  acknowledgedBy: column.json<Actor>('acknowledged_by'),
  lastSequence: column.plain<number>('last_sequence', 'bigint'),
  violationCount: column.plain<number>('violation_count', 'integer'),
  summary: column.line('summary'),
  recoveryCount: column.plain<number>('recovery_count', 'smallint'),
  eventSequence: column.plain<number>('event_sequence', 'integer'),
};

export const INCIDENT_ROW: Columns<IncidentRow> = {
  ...MONITOR_REF,
  monitorId: column.line('monitor_id'),
  jurisdiction: column.plain('jurisdiction', 'text'),
  incident: {
    incidentId: column.plain('incident_id', 'text'),
    kind: column.plain('kind', 'text'),
    measurement: column.line('measurement'),
    rule: column.plain('rule', 'text'),
    openedMs: column.moment('opened_at'),
    openSequence: column.plain('open_sequence', 'bigint'),
    ...CHANGEABLE,
  },
};

/** What each SELECT of `incidents i` names. */
export const INCIDENT_COLUMNS = sql.select(INCIDENT_ROW, 'i');

/** Turns a row that was selected with INCIDENT_COLUMNS into an IncidentRow. */
export const toIncidentRow = rowReader(INCIDENT_ROW);

const FIND_OPEN = statement(
  'find-open-incidents',
  (bind: Bind<readonly MonitorRef[]>) => `select ${INCIDENT_COLUMNS} from incidents i
    where (i.project_id, i.monitor_key) in (select * from ${sql.unnest(MONITOR_REF, bind, (refs) => refs)})
      and i.state in ('open', 'recovering')
    order by i.opened_at, i.incident_id`,
);

/** The not-ended incidents of monitors, by monitor key, oldest first (index incidents_one_open). */
export async function findOpenIncidents(
  db: Queryable,
  refs: readonly MonitorRef[],
): Promise<Map<string, Incident[]>> {
  const found = new Map<string, Incident[]>();
  if (refs.length === 0) return found;
  const { rows } = await db.query(FIND_OPEN(refs));
  for (const row of rows) {
    const { monitorKey, incident } = toIncidentRow(row);
    const list = found.get(monitorKey);
    if (list) list.push(incident);
    else found.set(monitorKey, [incident]);
  }
  return found;
}

const INSERT = statement(
  'insert-incidents',
  (bind: Bind<readonly IncidentRow[]>) => `insert into incidents (${sql.names(INCIDENT_ROW)})
    select ${sql.values(INCIDENT_ROW)} from ${sql.unnest(INCIDENT_ROW, bind, (rows) => rows)}`,
);

/**
 * Inserts new incidents. A second not-ended one of the same cause is a unique violation: the transaction fails.
 * As arrays: ten thousand at one instant cost Postgres half of what they cost as JSON.
 */
export async function insertIncidents(tx: Queryable, rows: readonly IncidentRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query(INSERT(rows));
}

const UPDATED = {
  projectId: MONITOR_REF.projectId,
  incident: { incidentId: column.plain<string>('incident_id', 'text'), ...CHANGEABLE },
};

const UPDATE = statement(
  'update-incidents',
  (bind: Bind<readonly IncidentRow[]>) => `update incidents i set ${sql.assignments({ incident: CHANGEABLE })}
    from ${sql.recordset(UPDATED, bind, (rows) => rows)}
    where i.project_id = v.project_id and i.incident_id = v.incident_id`,
);

export async function updateIncidents(tx: Queryable, rows: readonly IncidentRow[]): Promise<void> {
  if (rows.length > 0) await tx.query(UPDATE(rows));
}

/** An entry with what the timeline shows of a delivery. */
export type StoredEntry = TimelineEntry & { delivery?: { deliveryId: string; [fact: string]: unknown } };

/** An entry to append. */
export interface TimelineRow {
  projectId: string;
  incidentId: string;
  entry: StoredEntry;
}

export const TIMELINE_ENTRY: Columns<StoredEntry> = {
  atMs: column.moment('at'),
  type: column.plain('type', 'text'),
  from: column.plain('from_state', 'text'),
  to: column.plain('to_state', 'text'),
  actor: column.json('actor'),
  note: column.quoted('note', 'text'),
  delivery: column.json('delivery'),
  detail: column.json('detail'),
};

const NEW_ENTRY: Columns<TimelineRow & { entryId: string }> = {
  projectId: column.plain('project_id', 'uuid'),
  incidentId: column.plain('incident_id', 'text'),
  entryId: column.plain('entry_id', 'uuid'),
  entry: TIMELINE_ENTRY,
};

const INSERT_ENTRIES = statement(
  'insert-timeline-entries',
  (
    bind: Bind<readonly (TimelineRow & { entryId: string })[]>,
  ) => `insert into timeline_entries (${sql.names(NEW_ENTRY)})
    select ${sql.values(NEW_ENTRY)} from ${sql.unnest(NEW_ENTRY, bind, (rows) => rows)}`,
);

/** Appends entries. Their order is (at, entry id); ids are made in order, so that entries of one moment keep theirs. */
export async function insertTimelineEntries(tx: Queryable, rows: readonly TimelineRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query(INSERT_ENTRIES(rows.map((row, index) => ({ ...row, entryId: orderedUuid(index) }))));
}

/** A UUIDv7 whose counter field (rand_a, RFC 9562 6.2) is the place in the batch. */
function orderedUuid(index: number): string {
  const uuid = newUuid();
  return `${uuid.slice(0, 15)}${(index & 0xfff).toString(16).padStart(3, '0')}${uuid.slice(18)}`;
}
