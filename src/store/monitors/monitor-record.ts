// The row of a monitor, whose columns are mapped here, and the record that reads return: the row with the live
// state, open incidents, project and organization of any number of monitors, in one round trip.
import type { BindingKind } from '../../domain/callback.ts';
import type { IncidentKind, IncidentState, Severity } from '../../domain/incident.ts';
import type {
  Jurisdiction,
  LiveState,
  MonitorConfiguration,
  TimingConfiguration,
  TimingState,
} from '../../domain/monitor.ts';
import type { MonitorOrigin } from '../../domain/origin.ts';
import type { ServiceState } from '../../domain/problem.ts';
import { type Columns, column, rowReader, sql } from '../postgres/columns.ts';
import { millis, NOW_MS, wholeMillis } from '../postgres/moments.ts';
import { LIVE_STATE, MONITOR_REF, type MonitorRef } from './live.ts';

/** Where a monitor's alerts go, as stored. Callback targets resolve it to an endpoint. */
export interface StoredBinding {
  kind: BindingKind;
  /** Of kind `named`. */
  alias?: string;
  /** Of kind `inline`: the endpoint that serves this monitor only. */
  inlineEndpointId?: string;
}

/** A monitor's own row, as it is written. */
export interface MonitorRow extends MonitorRef, TimingState {
  monitorId: string;
  jurisdiction: Jurisdiction;
  configurationVersion: number;
  configuration: MonitorConfiguration;
  binding: StoredBinding;
  restorableUntilMs?: number;
  origin?: MonitorOrigin;
  /** The operator that sends its beats (docs/contract/monitors.md, "Who beats it"). */
  beatenBy?: string;
  publishAddress: string;
  updatedMs: number;
}

export const TIMING: Columns<TimingConfiguration> = {
  intervalSeconds: column.plain('interval_seconds', 'integer'),
  schedule: column.optional({
    cron: column.quoted('schedule_cron', 'text'),
    timeZone: column.quoted('schedule_time_zone', 'text'),
  }),
  graceSeconds: column.plain('grace_seconds', 'integer'),
  awaitFirstBeat: column.plain('await_first_beat', 'boolean'),
  maxRuntimeSeconds: column.plain('max_runtime_seconds', 'integer'),
  recoveryBeats: column.plain('recovery_beats', 'smallint'),
  missedBeatsToOpen: column.plain('missed_beats_to_open', 'smallint'),
  maintenanceSchedules: column.json('maintenance_schedules'),
  dependsOn: column.json('depends_on'),
};

export const LABELED: Columns<Pick<MonitorConfiguration, 'name' | 'labels'>> = {
  name: column.quoted('name', 'text'),
  labels: column.json('labels'),
};

/** A window that a person has set, and from when on those of schedules count. */
export const MAINTENANCE: Columns<Omit<TimingState, 'lifecycle' | 'beatenBy'>> = {
  maintenance: column.optional({
    startsMs: column.moment('maintenance_starts_at'),
    endsMs: column.moment('maintenance_ends_at'),
    reason: column.quoted('maintenance_reason', 'text'),
  }),
  recursSinceMs: column.moment('recurs_since'),
};

export const MONITOR_ID: Columns<MonitorRef & Pick<MonitorRow, 'monitorId' | 'jurisdiction'>> = {
  ...MONITOR_REF,
  monitorId: column.quoted('monitor_id', 'text'),
  jurisdiction: column.plain('jurisdiction', 'text'),
};

/** The object, without what the operator alone needs of it, which may be long. */
export const DECLARED_BY: Columns<Omit<MonitorOrigin, 'ownedFields'>> = {
  kind: column.plain('origin_kind', 'text'),
  namespace: column.quoted('origin_namespace', 'text'),
  name: column.quoted('origin_name', 'text'),
  uid: column.quoted('origin_uid', 'text'),
  orphanedMs: column.moment('orphaned_at'),
};

export const BEATEN_BY = column.quoted<string>('beaten_by', 'text');

/** The columns that an update writes. */
export const CHANGEABLE: Columns<Omit<MonitorRow, keyof typeof MONITOR_ID>> = {
  configurationVersion: column.plain('configuration_version', 'integer'),
  configuration: {
    ...TIMING,
    name: LABELED.name,
    description: column.quoted('description', 'text'),
    labels: LABELED.labels,
    measurements: column.json('measurements'),
  },
  binding: {
    kind: column.plain('binding_kind', 'text'),
    alias: column.quoted('binding_alias', 'text'),
    inlineEndpointId: column.quoted('inline_endpoint_id', 'text'),
  },
  lifecycle: column.plain('lifecycle', 'text'),
  restorableUntilMs: column.moment('restorable_until'),
  origin: column.optional({ ...DECLARED_BY, ownedFields: column.json('origin_owned_fields') }),
  beatenBy: BEATEN_BY,
  ...MAINTENANCE,
  publishAddress: column.plain('publish_address', 'uuid'),
  updatedMs: column.moment('updated_at'),
};

export const MONITOR: Columns<MonitorRow> = { ...MONITOR_ID, ...CHANGEABLE };

export interface Tenant {
  organizationId: string;
  projectName: string;
  /** For `findPlan`. */
  planId: string;
  serviceState: ServiceState;
  /** When the organization was last served again after a suspension. */
  returnedMs?: number;
  /** Since when the organization is suspended, where that is known. */
  suspendedMs?: number;
}

/** Of `projects p` and `organizations o`. */
export const TENANT: Columns<Tenant> = {
  organizationId: column.computed('organization_id', 'p.organization_id'),
  projectName: column.computed('project_name', 'p.name'),
  planId: column.computed('plan', 'o.plan'),
  serviceState: column.computed('service_state', 'o.service_state'),
  returnedMs: column.computed('returned_ms', wholeMillis('o.returned_at')),
  suspendedMs: column.computed('suspended_ms', wholeMillis('o.suspended_at')),
};

export const JOIN_TENANT = `join projects p on p.project_id = m.project_id
  join organizations o on o.organization_id = p.organization_id`;

export interface OpenIncident {
  incidentId: string;
  kind: IncidentKind;
  state: IncidentState;
  severity: Severity;
  openedMs: number;
  /** What opened it. */
  summary: string;
  /** Since when it is in its state. */
  sinceMs: number;
  /** That was missed last. */
  deadlineMs?: number;
}

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
    select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('incidentId', i.incident_id, 'kind', i.kind, 'state', i.state,
      'severity', i.severity, 'openedMs', ${millis('i.opened_at')}, 'summary', i.summary,
      'sinceMs', ${millis("case i.state when 'recovering' then i.recovering_at else coalesce(i.reopened_at, i.opened_at) end")},
      'deadlineMs', ${millis('coalesce(i.reopened_deadline_at, i.deadline_at)')})) order by i.opened_at, i.incident_id)
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

/** Precedes a statement that selects RECORD_COLUMNS: all of its rows have the same time. */
export const WITH_CLOCK = `with clock as materialized (select ${NOW_MS} as now_ms)`;

export const RECORD_COLUMNS = `${sql.select(WITHOUT_LIVE, 'm')}, ${sql.select(LIVE_STATE, 'l')}`;

/** Monitors `m`, live rows `l`, and the other tables of the record. */
export const RECORD_FROM = `from clock, monitors m
  join monitor_live l on l.project_id = m.project_id and l.monitor_key = m.monitor_key
  ${JOIN_TENANT}
  left join callback_endpoints e on e.project_id = m.project_id and e.endpoint_id = m.inline_endpoint_id`;

/** A WHERE follows it. */
export const SELECT_RECORDS = `${WITH_CLOCK} select ${RECORD_COLUMNS} ${RECORD_FROM}`;
