// Incidents and their timelines: what the state machine reads and writes, and the lists that people see. Every writer
// holds the lock of the monitor's live row, so an incident has one writer at a time; the unique index
// incidents_one_open is the second guard. Incidents of deleted monitors are read for as long as their rows exist.
import { MOST_COUNTED } from '../../domain/dependency.ts';
import { firstIdAt, newUuid } from '../../domain/id.ts';
import type {
  Actor,
  Incident,
  IncidentState,
  Severity,
  SuppressedBy,
  TimelineEntry,
} from '../../domain/incident.ts';
import { MONITOR_REF, type MonitorRef } from '../monitors/live.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { inShard } from '../postgres/engine.ts';
import { type Condition, type KeysetPage, keysetList, type Positioned } from '../postgres/keyset.ts';
import type { Queryable } from '../postgres/pool.ts';

/** An incident with a copy of its monitor's names: it outlives the monitor. */
export interface IncidentRow extends MonitorRef {
  monitorId: string;
  jurisdiction: string;
  incident: Incident;
  /** `detail` of the first entry of the timeline, which is read from this row. */
  openedDetail?: Record<string, unknown>;
}

/** The columns that an update writes. */
const CHANGEABLE = {
  state: column.plain<Incident['state']>('state', 'text'),
  severity: column.plain<Incident['severity']>('severity', 'text'),
  deadlineMs: column.moment('deadline_at'),
  recoveringMs: column.moment('recovering_at'),
  recoveredMs: column.moment('recovered_at'),
  resolvedMs: column.moment('resolved_at'),
  acknowledgedMs: column.moment('acknowledged_at'),
  alertedMs: column.moment('alerted_at'),
  heldMs: column.moment('held_until'),
  suppressedBy: column.json<SuppressedBy>('suppressed_by'),
  reopenedMs: column.moment('reopened_at'),
  reopenedDeadlineMs: column.moment('reopened_deadline_at'),
  acknowledgedBy: column.json<Actor>('acknowledged_by'),
  lastSequence: column.plain<number>('last_sequence', 'bigint'),
  violationCount: column.plain<number>('violation_count', 'integer'),
  summary: column.line('summary'),
  recoveryCount: column.plain<number>('recovery_count', 'smallint'),
  eventSequence: column.plain<number>('event_sequence', 'integer'),
};

/** The columns of an incident. */
export const INCIDENT = {
  incidentId: column.plain<string>('incident_id', 'text'),
  kind: column.plain<Incident['kind']>('kind', 'text'),
  measurement: column.line('measurement'),
  rule: column.plain<string>('rule', 'text'),
  openedMs: column.moment('opened_at'),
  openSequence: column.plain<number>('open_sequence', 'bigint'),
  ...CHANGEABLE,
} satisfies Columns<Incident>;

/** With those of its monitor. */
export const INCIDENT_ROW: Columns<IncidentRow> = {
  ...MONITOR_REF,
  monitorId: column.line('monitor_id'),
  jurisdiction: column.plain('jurisdiction', 'text'),
  incident: INCIDENT,
  openedDetail: column.json('opened_detail'),
};

/** As people see it. */
export interface ListedIncident extends IncidentRow {
  /** How many others were suppressed by it; no more than MOST_COUNTED are counted. */
  suppresses: number;
  /** As it is called now; undefined where it is deleted. */
  monitorName?: string;
}

const LISTED: Columns<ListedIncident> = {
  ...INCIDENT_ROW,
  monitorName: column.computed(
    'monitor_name',
    `(select m.name from monitors m where m.project_id = i.project_id and m.monitor_key = i.monitor_key)`,
  ),
  // Index incidents_suppressed.
  suppresses: column.computed(
    'suppresses',
    `(select count(*)::integer from (
      select from incidents s
      where s.project_id = i.project_id and s.suppressed_by ->> 'incidentId' = i.incident_id
        and s.suppressed_by is not null
      limit ${MOST_COUNTED}) s)`,
  ),
};
const toListed = rowReader(LISTED);

/** The select list over `incidents i`. */
export const INCIDENT_COLUMNS = sql.select(INCIDENT_ROW, 'i');

/** Turns a row that was selected with INCIDENT_COLUMNS into an IncidentRow. */
export const toIncidentRow = rowReader(INCIDENT_ROW);

const FIND_OPEN = statement(
  'find-open-incidents',
  (bind: Bind<readonly MonitorRef[]>) => `select ${INCIDENT_COLUMNS} from incidents i
    where (i.project_id, i.monitor_key) in (select * from ${sql.unnest(MONITOR_REF, bind, (refs) => refs)})${inShard('i', bind, (refs) => refs)}
      and i.state in ('open', 'recovering')
    order by i.opened_at, i.incident_id`,
);

/** The incidents of monitors that have not ended, by monitor key, oldest first (index incidents_one_open). */
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

const UPDATED = {
  projectId: MONITOR_REF.projectId,
  incident: { incidentId: column.plain<string>('incident_id', 'text'), ...CHANGEABLE },
};

const UPDATE = statement(
  'update-incidents',
  (bind: Bind<readonly IncidentRow[]>) => `update incidents i set ${sql.assignments({ incident: CHANGEABLE })}
    from ${sql.recordset(UPDATED, bind, (rows) => rows)}
    where i.project_id = v.project_id and i.incident_id = v.incident_id${inShard('i', bind, (rows) => rows)}`,
);

export async function updateIncidents(tx: Queryable, rows: readonly IncidentRow[]): Promise<void> {
  if (rows.length > 0) await tx.query(UPDATE(rows));
}

/** An entry with what the timeline shows of a delivery. */
export type StoredEntry = TimelineEntry & { delivery?: { deliveryId: string; [fact: string]: unknown } };

/** The id of the entry `opened`: it is before the others of its moment. */
const FIRST_ENTRY = '00000000-0000-0000-0000-000000000000';

/** An entry to append. */
export interface TimelineRow {
  projectId: string;
  incidentId: string;
  entry: StoredEntry;
}

/** What an entry says, without its moment. */
export const ENTRY_FACTS: Columns<Omit<StoredEntry, 'atMs'>> = {
  type: column.plain('type', 'text'),
  from: column.plain('from_state', 'text'),
  to: column.plain('to_state', 'text'),
  actor: column.json('actor'),
  note: column.quoted('note', 'text'),
  delivery: column.json('delivery'),
  detail: column.json('detail'),
};

export const TIMELINE_ENTRY: Columns<StoredEntry> = { atMs: column.moment('at'), ...ENTRY_FACTS };

/** An entry with its id. */
export type NewEntry = TimelineRow & { entryId: string };

export const NEW_ENTRY: Columns<NewEntry> = {
  projectId: column.plain('project_id', 'uuid'),
  incidentId: column.plain('incident_id', 'text'),
  entryId: column.plain('entry_id', 'uuid'),
  entry: TIMELINE_ENTRY,
};

const INSERT_ENTRIES = statement(
  'insert-timeline-entries',
  (bind: Bind<readonly NewEntry[]>) => `insert into timeline_entries (${sql.names(NEW_ENTRY)})
    select ${sql.values(NEW_ENTRY)} from ${sql.unnest(NEW_ENTRY, bind, (rows) => rows)}`,
);

/** Appends entries. Their order is (at, entry id). Ids ascend, so entries of one moment keep their order. */
export async function insertTimelineEntries(tx: Queryable, rows: readonly TimelineRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query(INSERT_ENTRIES(rows.map(toNewEntry)));
}

/** Gives an entry its id: `index` is its place among the entries of one statement. */
export function toNewEntry<Row>(row: Row, index: number): Row & { entryId: string } {
  return { ...row, entryId: orderedUuid(index) };
}

/** A UUIDv7 whose counter field (rand_a, RFC 9562 6.2) is the index in the batch. */
function orderedUuid(index: number): string {
  const uuid = newUuid();
  return `${uuid.slice(0, 15)}${(index & 0xfff).toString(16).padStart(3, '0')}${uuid.slice(18)}`;
}

export interface IncidentFilter {
  projectId: string;
  /** One monitor. State its `monitorId` too: the index incidents_monitor_ended is by that column. */
  monitorKey?: string;
  /** The public id, in every jurisdiction; finds incidents of deleted monitors too. */
  monitorId?: string;
  jurisdiction?: string;
  state?: IncidentState;
  severity?: Severity;
  /** Inclusive, compared with `openedMs`. */
  sinceMs?: number;
  /** Exclusive. */
  untilMs?: number;
}

const BY_ID = { from: 'incidents i', alias: 'i', id: 'incident_id' };
const list = keysetList(LISTED, BY_ID);
/** Only a monitor that exists has incidents that are not over. */
const listOfMonitor = keysetList(LISTED, {
  ...BY_ID,
  parts: [
    "i.state in ('recovered', 'resolved')",
    `i.state in ('open', 'recovering') and (i.project_id, i.monitor_key, i.monitor_id) in (
      select m.project_id, m.monitor_key, m.monitor_id from monitors m)`,
  ],
});

/** Newest first: ids are made from `openedMs`. */
export async function listIncidents(
  db: Queryable,
  filter: IncidentFilter,
  page: KeysetPage,
): Promise<Positioned<ListedIncident>[]> {
  const conditions: Condition[] = [
    ['i.project_id = $', filter.projectId],
    ['i.monitor_key = $', filter.monitorKey],
    ['i.monitor_id = $', filter.monitorId],
    ['i.jurisdiction = $', filter.jurisdiction],
    ['i.state = $', filter.state],
    ['i.severity = $', filter.severity],
    ['i.incident_id >= $', filter.sinceMs === undefined ? undefined : firstIdAt('inc', filter.sinceMs)],
    ['i.incident_id < $', filter.untilMs === undefined ? undefined : firstIdAt('inc', filter.untilMs)],
  ];
  return await (filter.monitorId === undefined ? list : listOfMonitor)(db, conditions, page);
}

export async function findIncident(
  db: Queryable,
  projectId: string,
  incidentId: string,
): Promise<ListedIncident | undefined> {
  const { rows } = await db.query({
    name: 'find-incident',
    text: `select ${sql.select(LISTED, 'i')} from incidents i where i.project_id = $1 and i.incident_id = $2`,
    values: [projectId, incidentId],
  });
  return rows.map(toListed)[0];
}

/** Reads the incident and locks its row. Lock the monitor's live row before, if the monitor exists. */
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

// The first entry of each timeline, `opened`, is read from the incident: thousands open at once, and each row counts.
const listEntries = keysetList(TIMELINE_ENTRY, {
  from: `(
    select t.* from timeline_entries t
    union all
    select i.project_id, i.incident_id, '${FIRST_ENTRY}'::uuid, i.opened_at, 'opened', null, 'open', null, null, null,
      i.opened_detail
    from incidents i) t`,
  alias: 't',
  time: 'at',
  id: 'entry_id',
  order: 'asc',
});

/** Oldest first, by (at, entry id): a page is a range of the primary key. */
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
