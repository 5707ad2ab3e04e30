// A monitor as reads need it: configuration, live state and open incidents of any number of monitors in one round
// trip. The statements that find monitors share what is here; what a caller sees of it the api decides.
import type { IncidentKind, IncidentState, Severity } from '../../domain/incident.ts';
import type {
  Jurisdiction,
  Lifecycle,
  LiveState,
  MonitorConfiguration,
  Window,
} from '../../domain/monitor.ts';
import type { ServiceState } from '../../domain/problem.ts';
import { LIVE_COLUMNS, type MonitorRef, toLiveRow } from './live.ts';
import {
  type StoredBinding,
  TIMING_COLUMNS,
  type TimingColumns,
  toBinding,
  toTimingConfiguration,
  toWindow,
} from './watched-monitor.ts';

export interface MaintenanceWindow extends Window {
  reason?: string;
}

export interface OpenIncident {
  incidentId: string;
  kind: IncidentKind;
  state: IncidentState;
  severity: Severity;
  openedMs: number;
}

/** Times are ms of the database's clock. */
export interface MonitorRecord extends MonitorRef {
  monitorId: string;
  jurisdiction: Jurisdiction;
  configurationVersion: number;
  configuration: MonitorConfiguration;
  binding: StoredBinding;
  /** Of an inline binding: its URL, sealed. */
  inlineUrlBox?: Buffer;
  lifecycle: Lifecycle;
  restorableUntilMs?: number;
  maintenance?: MaintenanceWindow;
  publishAddress: string;
  createdMs: number;
  updatedMs: number;
  live: LiveState;
  /** Oldest first. */
  openIncidents: OpenIncident[];
  organizationId: string;
  projectName: string;
  planId: string;
  serviceState: ServiceState;
  /** When it was read. */
  nowMs: number;
}

/** Goes before a statement that selects RECORD_COLUMNS: one clock for all of its rows. */
export const WITH_CLOCK = `with clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms)`;

export const RECORD_COLUMNS = `${LIVE_COLUMNS}, ${TIMING_COLUMNS},
  m.configuration_version as version, m.monitor_id, m.jurisdiction, m.name, m.description, m.labels, m.measurements,
  m.binding_kind, m.binding_alias, m.inline_endpoint_id, e.url_box, m.maintenance_reason, m.publish_address,
  (extract(epoch from m.restorable_until) * 1000)::bigint as restorable_until_ms,
  (extract(epoch from m.created_at) * 1000)::bigint as created_ms,
  (extract(epoch from m.updated_at) * 1000)::bigint as updated_ms,
  (select jsonb_agg(jsonb_build_object('incidentId', i.incident_id, 'kind', i.kind, 'state', i.state,
      'severity', i.severity, 'openedMs', (extract(epoch from i.opened_at) * 1000)::bigint)
      order by i.opened_at, i.incident_id)
    from incidents i
    where i.project_id = m.project_id and i.monitor_key = m.monitor_key and i.state in ('open', 'recovering')
  ) as incidents,
  p.organization_id, p.name as project_name, o.plan, o.service_state, clock.now_ms`;

/** Monitors `m`, live rows `l`, and what the record shows of other tables. */
export const RECORD_FROM = `from clock, monitors m
  join monitor_live l on l.project_id = m.project_id and l.monitor_key = m.monitor_key
  join projects p on p.project_id = m.project_id
  join organizations o on o.organization_id = p.organization_id
  left join callback_endpoints e on e.project_id = m.project_id and e.endpoint_id = m.inline_endpoint_id`;

export type RecordColumns = TimingColumns & {
  monitor_key: string;
  version: number;
  monitor_id: string;
  jurisdiction: Jurisdiction;
  name: string;
  description: string | null;
  labels: Record<string, string>;
  measurements: MonitorConfiguration['measurements'];
  binding_kind: StoredBinding['kind'];
  binding_alias: string | null;
  inline_endpoint_id: string | null;
  url_box: Buffer | null;
  maintenance_reason: string | null;
  publish_address: string;
  restorable_until_ms: number | null;
  created_ms: number;
  updated_ms: number;
  incidents: OpenIncident[] | null;
  organization_id: string;
  project_name: string;
  plan: string;
  service_state: ServiceState;
  now_ms: number;
};

/** Turns a row that was selected with RECORD_COLUMNS into a MonitorRecord. */
export function toMonitorRecord(row: RecordColumns): MonitorRecord {
  const { projectId, monitorKey, live } = toLiveRow(row);
  const window = toWindow(row);
  return {
    projectId,
    monitorKey,
    monitorId: row.monitor_id,
    jurisdiction: row.jurisdiction,
    configurationVersion: row.version,
    configuration: {
      ...toTimingConfiguration(row),
      name: row.name,
      description: row.description ?? undefined,
      labels: row.labels,
      measurements: row.measurements,
    },
    binding: toBinding(row),
    inlineUrlBox: row.url_box ?? undefined,
    lifecycle: row.lifecycle,
    restorableUntilMs: row.restorable_until_ms ?? undefined,
    maintenance: window && { ...window, reason: row.maintenance_reason ?? undefined },
    publishAddress: row.publish_address,
    createdMs: row.created_ms,
    updatedMs: row.updated_ms,
    live,
    openIncidents: row.incidents ?? [],
    organizationId: row.organization_id,
    projectName: row.project_name,
    planId: row.plan,
    serviceState: row.service_state,
    nowMs: row.now_ms,
  };
}
