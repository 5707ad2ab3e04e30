// The row of a monitor: its columns, each named here alone, and what is read with it of its project and organization.
import type { BindingKind } from '../../domain/callback.ts';
import type {
  Jurisdiction,
  Lifecycle,
  MonitorConfiguration,
  TimingConfiguration,
  Window,
} from '../../domain/monitor.ts';
import type { ServiceState } from '../../domain/problem.ts';
import { type Columns, computed, json, moment, optional, plain, quoted } from '../postgres/columns.ts';
import { MONITOR_REF, type MonitorRef } from './live.ts';

export interface MaintenanceWindow extends Window {
  reason?: string;
}

/** Where a monitor's alerts go, as it is stored: which endpoint that is now, callback targets find out. */
export interface StoredBinding {
  kind: BindingKind;
  /** Of a `named` one. */
  alias?: string;
  /** Of an `inline` one: the endpoint made for this monitor alone. */
  inlineEndpointId?: string;
}

/** A monitor's own row, as it is written. Times are ms of the database's clock. */
export interface MonitorRow extends MonitorRef {
  monitorId: string;
  jurisdiction: Jurisdiction;
  configurationVersion: number;
  configuration: MonitorConfiguration;
  binding: StoredBinding;
  lifecycle: Lifecycle;
  restorableUntilMs?: number;
  maintenance?: MaintenanceWindow;
  publishAddress: string;
  updatedMs: number;
}

export const TIMING: Columns<TimingConfiguration> = {
  intervalSeconds: plain('interval_seconds', 'integer'),
  schedule: optional({
    cron: quoted('schedule_cron', 'text'),
    timeZone: quoted('schedule_time_zone', 'text'),
  }),
  graceSeconds: plain('grace_seconds', 'integer'),
  awaitFirstBeat: plain('await_first_beat', 'boolean'),
  maxRuntimeSeconds: plain('max_runtime_seconds', 'integer'),
  recoveryBeats: plain('recovery_beats', 'smallint'),
  missedBeatsToOpen: plain('missed_beats_to_open', 'smallint'),
};

export const LABELED: Columns<Pick<MonitorConfiguration, 'name' | 'labels'>> = {
  name: quoted('name', 'text'),
  labels: json('labels'),
};

export const WINDOW: Columns<Window> = {
  startsMs: moment('maintenance_starts_at'),
  endsMs: moment('maintenance_ends_at'),
};

export const MONITOR_ID: Columns<MonitorRef & Pick<MonitorRow, 'monitorId' | 'jurisdiction'>> = {
  ...MONITOR_REF,
  monitorId: quoted('monitor_id', 'text'),
  jurisdiction: plain('jurisdiction', 'text'),
};

/** What a write may change. */
export const CHANGEABLE: Columns<Omit<MonitorRow, keyof typeof MONITOR_ID>> = {
  configurationVersion: plain('configuration_version', 'integer'),
  configuration: {
    ...TIMING,
    name: LABELED.name,
    description: quoted('description', 'text'),
    labels: LABELED.labels,
    measurements: json('measurements'),
  },
  binding: {
    kind: plain('binding_kind', 'text'),
    alias: quoted('binding_alias', 'text'),
    inlineEndpointId: quoted('inline_endpoint_id', 'text'),
  },
  lifecycle: plain('lifecycle', 'text'),
  restorableUntilMs: moment('restorable_until'),
  maintenance: optional({ ...WINDOW, reason: quoted('maintenance_reason', 'text') }),
  publishAddress: plain('publish_address', 'uuid'),
  updatedMs: moment('updated_at'),
};

export const MONITOR: Columns<MonitorRow> = { ...MONITOR_ID, ...CHANGEABLE };

export interface Tenant {
  organizationId: string;
  projectName: string;
  /** For `findPlan`. */
  planId: string;
  serviceState: ServiceState;
}

/** Of `projects p` and `organizations o`. */
export const TENANT: Columns<Tenant> = {
  organizationId: computed('organization_id', 'p.organization_id'),
  projectName: computed('project_name', 'p.name'),
  planId: computed('plan', 'o.plan'),
  serviceState: computed('service_state', 'o.service_state'),
};

export const JOIN_TENANT = `join projects p on p.project_id = m.project_id
  join organizations o on o.organization_id = p.organization_id`;
