// A monitor as reads need it: configuration, live state and open incidents of any number of monitors in one round
// trip. The statements that find monitors share what is here; what a caller sees of it the api decides.
import type { IncidentKind, IncidentState, Severity } from '../../domain/incident.ts';
import type { LiveState } from '../../domain/monitor.ts';
import { type Columns, column, rowReader, sql } from '../postgres/columns.ts';
import { millis, NOW_MS } from '../postgres/moments.ts';
import { LIVE_STATE } from './live.ts';
import { JOIN_TENANT, MONITOR, type MonitorRow, TENANT, type Tenant } from './monitor-row.ts';

export interface OpenIncident {
  incidentId: string;
  kind: IncidentKind;
  state: IncidentState;
  severity: Severity;
  openedMs: number;
}

/** Times are ms of the database's clock. */
export interface MonitorRecord extends MonitorRow, Tenant {
  /** Of an inline binding: its URL, sealed. */
  inlineUrlBox?: Buffer;
  createdMs: number;
  live: LiveState;
  /** Oldest first. */
  openIncidents: OpenIncident[];
  /** When it was read. */
  nowMs: number;
}

const OPEN_INCIDENTS = `(
    select jsonb_agg(jsonb_build_object('incidentId', i.incident_id, 'kind', i.kind, 'state', i.state,
      'severity', i.severity, 'openedMs', ${millis('i.opened_at')}) order by i.opened_at, i.incident_id)
    from incidents i
    where i.project_id = m.project_id and i.monitor_key = m.monitor_key and i.state in ('open', 'recovering'))`;

const WITHOUT_LIVE: Columns<Omit<MonitorRecord, 'live'>> = {
  ...MONITOR,
  ...TENANT,
  inlineUrlBox: column.computed('url_box', 'e.url_box'),
  createdMs: column.moment('created_at'),
  openIncidents: column.computed('incidents', OPEN_INCIDENTS, () => []),
  nowMs: column.computed('now_ms', 'clock.now_ms'),
};

/** Turns a row that was selected with RECORD_COLUMNS into a MonitorRecord. */
export const toMonitorRecord = rowReader<MonitorRecord>({ ...WITHOUT_LIVE, live: LIVE_STATE });

/** Goes before a statement that selects RECORD_COLUMNS: one clock for all of its rows. */
export const WITH_CLOCK = `with clock as materialized (select ${NOW_MS} as now_ms)`;

export const RECORD_COLUMNS = `${sql.select(WITHOUT_LIVE, 'm')}, ${sql.select(LIVE_STATE, 'l')}`;

/** Monitors `m`, live rows `l`, and what the record shows of other tables. */
export const RECORD_FROM = `from clock, monitors m
  join monitor_live l on l.project_id = m.project_id and l.monitor_key = m.monitor_key
  ${JOIN_TENANT}
  left join callback_endpoints e on e.project_id = m.project_id and e.endpoint_id = m.inline_endpoint_id`;

/** Reads the records that a WHERE after it holds for. */
export const SELECT_RECORDS = `${WITH_CLOCK} select ${RECORD_COLUMNS} ${RECORD_FROM}`;
