// Incidents and their timelines, as the state machine sees them. Who writes holds the lock of the monitor's live row,
// so that an incident has one writer at a time; the unique index incidents_one_open is the second wall.

import { newUuid } from '../../domain/id.ts';
import type { Actor, Incident, TimelineEntry } from '../../domain/incident.ts';
import { MONITOR_REF, type MonitorRef } from '../monitors/live.ts';
import {
  assignments,
  type Bind,
  type Columns,
  json,
  line,
  moment,
  names,
  plain,
  quoted,
  recordset,
  rowReader,
  selectList,
  statement,
  unnest,
  valuesOf,
} from '../postgres/columns.ts';
import type { Queryable } from '../postgres/pool.ts';

/** An incident with what it holds of its monitor, which it outlives. */
export interface IncidentRow extends MonitorRef {
  monitorId: string;
  jurisdiction: string;
  incident: Incident;
}

/** What an update may change. */
const CHANGEABLE = {
  state: plain<Incident['state']>('state', 'text'),
  severity: plain<Incident['severity']>('severity', 'text'),
  deadlineMs: moment('deadline_at'),
  recoveringMs: moment('recovering_at'),
  recoveredMs: moment('recovered_at'),
  resolvedMs: moment('resolved_at'),
  acknowledgedMs: moment('acknowledged_at'),
  alertedMs: moment('alerted_at'),
  acknowledgedBy: json<Actor>('acknowledged_by'),
  lastSequence: plain<number>('last_sequence', 'bigint'),
  violationCount: plain<number>('violation_count', 'integer'),
  summary: line('summary'),
  recoveryCount: plain<number>('recovery_count', 'smallint'),
  eventSequence: plain<number>('event_sequence', 'integer'),
};

const INCIDENT_ROW: Columns<IncidentRow> = {
  ...MONITOR_REF,
  monitorId: line('monitor_id'),
  jurisdiction: plain('jurisdiction', 'text'),
  incident: {
    incidentId: plain('incident_id', 'text'),
    kind: plain('kind', 'text'),
    measurement: line('measurement'),
    rule: plain('rule', 'text'),
    openedMs: moment('opened_at'),
    openSequence: plain('open_sequence', 'bigint'),
    ...CHANGEABLE,
  },
};

/** What each SELECT of `incidents i` names. */
export const INCIDENT_COLUMNS = selectList(INCIDENT_ROW, 'i');

/** Turns a row that was selected with INCIDENT_COLUMNS into an IncidentRow. */
export const toIncidentRow = rowReader(INCIDENT_ROW);

const FIND_OPEN = statement(
  'find-open-incidents',
  (bind: Bind<readonly MonitorRef[]>) => `select ${INCIDENT_COLUMNS} from incidents i
    where (i.project_id, i.monitor_key) in (select * from ${unnest(MONITOR_REF, bind, (refs) => refs)})
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
  (bind: Bind<readonly IncidentRow[]>) => `insert into incidents (${names(INCIDENT_ROW)})
    select ${valuesOf(INCIDENT_ROW)} from ${unnest(INCIDENT_ROW, bind, (rows) => rows)}`,
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
  incident: { incidentId: plain<string>('incident_id', 'text'), ...CHANGEABLE },
};

const UPDATE = statement(
  'update-incidents',
  (bind: Bind<readonly IncidentRow[]>) => `update incidents i set ${assignments({ incident: CHANGEABLE })}
    from ${recordset(UPDATED, bind, (rows) => rows)}
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
  atMs: moment('at'),
  type: plain('type', 'text'),
  from: plain('from_state', 'text'),
  to: plain('to_state', 'text'),
  actor: json('actor'),
  note: quoted('note', 'text'),
  delivery: json('delivery'),
  detail: json('detail'),
};

const NEW_ENTRY: Columns<TimelineRow & { entryId: string }> = {
  projectId: plain('project_id', 'uuid'),
  incidentId: plain('incident_id', 'text'),
  entryId: plain('entry_id', 'uuid'),
  entry: TIMELINE_ENTRY,
};

const INSERT_ENTRIES = statement(
  'insert-timeline-entries',
  (
    bind: Bind<readonly (TimelineRow & { entryId: string })[]>,
  ) => `insert into timeline_entries (${names(NEW_ENTRY)})
    select ${valuesOf(NEW_ENTRY)} from ${unnest(NEW_ENTRY, bind, (rows) => rows)}`,
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
