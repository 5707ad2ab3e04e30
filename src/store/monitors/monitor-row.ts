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
import { type Columns, column } from '../postgres/columns.ts';
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
};

export const LABELED: Columns<Pick<MonitorConfiguration, 'name' | 'labels'>> = {
  name: column.quoted('name', 'text'),
  labels: column.json('labels'),
};

export const WINDOW: Columns<Window> = {
  startsMs: column.moment('maintenance_starts_at'),
  endsMs: column.moment('maintenance_ends_at'),
};

export const MONITOR_ID: Columns<MonitorRef & Pick<MonitorRow, 'monitorId' | 'jurisdiction'>> = {
  ...MONITOR_REF,
  monitorId: column.quoted('monitor_id', 'text'),
  jurisdiction: column.plain('jurisdiction', 'text'),
};

/** What a write may change. */
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
  maintenance: column.optional({ ...WINDOW, reason: column.quoted('maintenance_reason', 'text') }),
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
}

/** Of `projects p` and `organizations o`. */
export const TENANT: Columns<Tenant> = {
  organizationId: column.computed('organization_id', 'p.organization_id'),
  projectName: column.computed('project_name', 'p.name'),
  planId: column.computed('plan', 'o.plan'),
  serviceState: column.computed('service_state', 'o.service_state'),
};

export const JOIN_TENANT = `join projects p on p.project_id = m.project_id
  join organizations o on o.organization_id = p.organization_id`;
