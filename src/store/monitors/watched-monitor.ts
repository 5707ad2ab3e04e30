// What beats, deadlines and alerts need of a monitor's configuration: one loader for ingest, sweeper and api.
// It reads; who changes a configuration is monitors.ts.

import type { BindingKind } from '../../domain/callback.ts';
import type { Jurisdiction, Lifecycle, MonitorConfiguration, Timing, Window } from '../../domain/monitor.ts';
import type { ServiceState } from '../../domain/problem.ts';
import { compileSchedule, type Schedule, ScheduleError, type ScheduleSpec } from '../../domain/schedule.ts';
import type { Queryable } from '../postgres/pool.ts';
import type { MonitorRef } from './live.ts';

/** Where a monitor's alerts go, as it is stored: which endpoint that is now, callback targets find out. */
export interface StoredBinding {
  kind: BindingKind;
  /** Of a `named` one. */
  alias?: string;
  /** Of an `inline` one: the endpoint made for this monitor alone. */
  inlineEndpointId?: string;
}

export interface WatchedMonitor extends MonitorRef {
  /** Equal to the one of the live row, or the live row was computed under another configuration. */
  configurationVersion: number;
  timing: Timing;
  monitorId: string;
  name: string;
  labels: Record<string, string>;
  jurisdiction: Jurisdiction;
  binding: StoredBinding;
  organizationId: string;
  projectName: string;
  /** For `findPlan`. */
  planId: string;
  serviceState: ServiceState;
}

/** The columns of a Timing, selected from `monitors m`. Times are ms. */
export const TIMING_COLUMNS = `m.interval_seconds, m.schedule_cron, m.schedule_time_zone, m.grace_seconds,
  m.await_first_beat, m.max_runtime_seconds, m.recovery_beats, m.missed_beats_to_open, m.lifecycle,
  (extract(epoch from m.maintenance_starts_at) * 1000)::bigint as maintenance_starts_ms,
  (extract(epoch from m.maintenance_ends_at) * 1000)::bigint as maintenance_ends_ms`;

export interface TimingColumns {
  interval_seconds: number | null;
  schedule_cron: string | null;
  schedule_time_zone: string | null;
  grace_seconds: number;
  await_first_beat: boolean;
  max_runtime_seconds: number | null;
  recovery_beats: number;
  missed_beats_to_open: number;
  lifecycle: Lifecycle;
  maintenance_starts_ms: number | null;
  maintenance_ends_ms: number | null;
}

interface Columns extends TimingColumns {
  project_id: string;
  monitor_key: string;
  configuration_version: number;
  monitor_id: string;
  name: string;
  labels: Record<string, string>;
  jurisdiction: Jurisdiction;
  binding_kind: StoredBinding['kind'];
  binding_alias: string | null;
  inline_endpoint_id: string | null;
  organization_id: string;
  project_name: string;
  plan: string;
  service_state: ServiceState;
}

/**
 * Loads the monitors of `refs` in one query, keyed by monitor key. Monitors that don't exist are left out.
 * `minimumIntervalMs`: the installation's floor of a learned cadence (`ServiceContext.minimumIntervalSeconds`).
 */
export async function loadWatchedMonitors(
  db: Queryable,
  refs: readonly MonitorRef[],
  minimumIntervalMs: number,
): Promise<Map<string, WatchedMonitor>> {
  if (refs.length === 0) return new Map();
  const { rows } = await db.query<Columns>({
    name: 'load-watched-monitors',
    text: `select m.project_id, m.monitor_key, m.configuration_version, m.monitor_id, m.name, m.labels,
        m.jurisdiction, m.binding_kind, m.binding_alias, m.inline_endpoint_id, ${TIMING_COLUMNS},
        p.organization_id, p.name as project_name, o.plan, o.service_state
      from unnest($1::uuid[], $2::uuid[]) as k (project_id, monitor_key)
      join monitors m on m.project_id = k.project_id and m.monitor_key = k.monitor_key
      join projects p on p.project_id = m.project_id
      join organizations o on o.organization_id = p.organization_id`,
    values: [refs.map((ref) => ref.projectId), refs.map((ref) => ref.monitorKey)],
  });
  return new Map(rows.map((row) => [row.monitor_key, toWatchedMonitor(row, minimumIntervalMs)]));
}

function toWatchedMonitor(row: Columns, minimumIntervalMs: number): WatchedMonitor {
  return {
    projectId: row.project_id,
    monitorKey: row.monitor_key,
    configurationVersion: row.configuration_version,
    timing: toTiming(
      toTimingConfiguration(row),
      { lifecycle: row.lifecycle, maintenance: toWindow(row) },
      minimumIntervalMs,
    ),
    monitorId: row.monitor_id,
    name: row.name,
    labels: row.labels,
    jurisdiction: row.jurisdiction,
    binding: toBinding(row),
    organizationId: row.organization_id,
    projectName: row.project_name,
    planId: row.plan,
    serviceState: row.service_state,
  };
}

export function toBinding(
  row: Pick<Columns, 'binding_kind' | 'binding_alias' | 'inline_endpoint_id'>,
): StoredBinding {
  return {
    kind: row.binding_kind,
    alias: row.binding_alias ?? undefined,
    inlineEndpointId: row.inline_endpoint_id ?? undefined,
  };
}

/** The part of a configuration that decides about time, as it is stored. */
type TimingConfiguration = Omit<MonitorConfiguration, 'name' | 'description' | 'labels' | 'measurements'>;

/** Turns the timing columns of a row into the stored configuration. */
export function toTimingConfiguration(row: TimingColumns): TimingConfiguration {
  const { schedule_cron: cron, schedule_time_zone: timeZone } = row;
  return {
    intervalSeconds: row.interval_seconds ?? undefined,
    schedule: cron === null || timeZone === null ? undefined : { cron, timeZone },
    graceSeconds: row.grace_seconds,
    awaitFirstBeat: row.await_first_beat,
    maxRuntimeSeconds: row.max_runtime_seconds ?? undefined,
    recoveryBeats: row.recovery_beats,
    missedBeatsToOpen: row.missed_beats_to_open,
  };
}

/** Turns a stored configuration into what the deciding code reads. Compiles the schedule. */
export function toTiming(
  configuration: TimingConfiguration,
  state: { lifecycle: Lifecycle; maintenance?: Window },
  minimumIntervalMs: number,
): Timing {
  return {
    lifecycle: state.lifecycle,
    intervalMs: toMs(configuration.intervalSeconds),
    schedule: toSchedule(configuration.schedule),
    graceMs: configuration.graceSeconds * 1000,
    awaitFirstBeat: configuration.awaitFirstBeat,
    maxRuntimeMs: toMs(configuration.maxRuntimeSeconds),
    recoveryBeats: configuration.recoveryBeats,
    missedBeatsToOpen: configuration.missedBeatsToOpen,
    maintenance: state.maintenance,
    minimumIntervalMs,
  };
}

/** The maintenance window of a row. */
export function toWindow(row: TimingColumns): Window | undefined {
  const { maintenance_starts_ms: startsMs, maintenance_ends_ms: endsMs } = row;
  return startsMs === null || endsMs === null ? undefined : { startsMs, endsMs };
}

function toMs(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}

/**
 * A stored schedule was valid when it was written. If this build's time zones no longer know it, its monitor has no
 * deadline: an error here would stop every other monitor of the batch.
 */
function toSchedule(spec: ScheduleSpec | undefined): Schedule | undefined {
  if (!spec) return undefined;
  try {
    return compileSchedule(spec);
  } catch (error) {
    if (error instanceof ScheduleError) return { nextAfter: () => undefined };
    throw error;
  }
}
