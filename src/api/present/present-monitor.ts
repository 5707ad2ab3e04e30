// Monitors as the API shows them (docs/contract/monitors.md): records, live status, and their history.

import type { Observation } from '../../contract/resources/beat.ts';
import type { MonitorChange } from '../../contract/resources/change.ts';
import { measurementRuleWithDefaults } from '../../contract/resources/measurement-rule-patch.ts';
import type { Monitor, MonitorStatus } from '../../contract/resources/monitor.ts';
import type { Series } from '../../contract/resources/series.ts';
import type { StatusFeedItem } from '../../contract/resources/status-feed.ts';
import { healthOf } from '../../domain/health.ts';
import {
  hasOwnWindow,
  type Maintained,
  type MaintenanceWindow,
  recurrenceOf,
  windowFrom,
} from '../../domain/maintenance.ts';
import type { MonitorConfiguration } from '../../domain/monitor.ts';
import { toOriginRecord } from '../../domain/origin.ts';
import { DAY_MS } from '../../domain/retention.ts';
import { optionalTime, toTime } from '../../domain/timestamp.ts';
import { openUrl } from '../../service/callbacks/endpoint-seal.ts';
import type { ExplainedItem } from '../../service/monitors/feed-reasons.ts';
import type { SeriesBucket } from '../../service/monitors/series.ts';
import type { ObservationRecord } from '../../store/beats/observations-read.ts';
import type { ChangeRecord } from '../../store/monitors/monitor-changes.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import { presentDeclaration, type Viewer, visibleUrl } from './present-callback.ts';

const SHOWN_AHEAD_MS = 30 * DAY_MS;

/** Only a caller who may manage sees the publish address. */
export function presentMonitor(monitor: MonitorRecord, viewer: Viewer): Monitor {
  const { configuration, monitorId, restorableUntilMs, maintenance, nowMs } = monitor;
  const { measurements, ...rest } = configuration;
  return {
    monitorId,
    monitorKey: monitorId,
    projectId: monitor.projectId,
    ...rest,
    jurisdiction: monitor.jurisdiction,
    callback: presentBinding(monitor, viewer),
    measurements: presentMeasurements(measurements),
    origin: monitor.origin && {
      ...toOriginRecord(monitor.origin),
      ...presentDeclaration(monitor.origin, viewer.caller),
    },
    beatenBy: monitor.beatenBy,
    lifecycle: monitor.lifecycle,
    maintenance: maintenance && hasOwnWindow(monitor, nowMs) ? presentWindow(maintenance) : undefined,
    restorableUntil: optionalTime(restorableUntilMs),
    publishUrl: viewer.caller.mayManage ? publishUrlOf(monitor, viewer.context) : undefined,
    configurationVersion: monitor.configurationVersion,
    createdAt: toTime(monitor.createdMs),
    updatedAt: toTime(monitor.updatedMs),
    status: presentStatus(monitor),
  };
}

/** The address for the beats of a monitor. */
export function publishUrlOf({ publishAddress }: MonitorRecord, { publicUrl }: Viewer['context']): string {
  return `${publicUrl}/ping/${publishAddress}`;
}

export function presentBinding(
  { projectId, binding, inlineUrlBox }: MonitorRecord,
  { context, caller }: Viewer,
): Monitor['callback'] {
  switch (binding.kind) {
    case 'named':
      return { kind: 'named', alias: binding.alias ?? '' };
    case 'inline': {
      const ref = { projectId, endpointId: binding.inlineEndpointId ?? '' };
      const url = inlineUrlBox && visibleUrl(openUrl(context.secrets, ref, inlineUrlBox), caller);
      return { kind: 'inline', url: url ?? '' };
    }
    default:
      return { kind: binding.kind };
  }
}

function presentMeasurements(measurements: MonitorConfiguration['measurements']): Monitor['measurements'] {
  const rules = Object.entries(measurements);
  return Object.fromEntries(rules.map(([key, rule]) => [key, measurementRuleWithDefaults(rule)]));
}

/** The live status at the moment of the read. */
function presentStatus(monitor: MonitorRecord): MonitorStatus {
  const { live, lifecycle, maintenance, recursSinceMs, openIncidents, nowMs } = monitor;
  const { schedule, graceSeconds, maintenanceSchedules } = monitor.configuration;
  const maintained = { maintenance, recurrence: recurrenceOf(maintenanceSchedules, recursSinceMs) };
  const shownWindow = lifecycle === 'active' ? shownWindowOf(maintained, nowMs) : undefined;
  return {
    health: healthOf(
      { lifecycle, ...maintained, graceMs: graceSeconds * 1000, schedule },
      live,
      openIncidents,
      nowMs,
    ),
    firstBeatAt: optionalTime(live.firstBeatMs),
    lastBeatAt: optionalTime(live.lastBeatMs),
    lastSequence: live.lastSequence,
    lastDurationSeconds: live.lastDurationMs === undefined ? undefined : live.lastDurationMs / 1000,
    nextDeadlineAt: optionalTime(live.deadlineMs),
    cadence: presentCadence(monitor),
    maintenance: shownWindow && presentWindow(shownWindow),
    openIncidents: openIncidents.map(({ incidentId, kind, state, severity, openedMs }) => ({
      ...{ incidentId, kind, state, severity },
      openedAt: toTime(openedMs),
    })),
  };
}

function presentCadence({ configuration, live }: MonitorRecord): MonitorStatus['cadence'] {
  const { intervalSeconds, schedule } = configuration;
  if (schedule) return { source: 'schedule' };
  if (intervalSeconds !== undefined) return { source: 'configured', intervalSeconds };
  const sampleCount = live.gaps.length;
  if (live.cadenceMs === undefined) return { source: 'learning', sampleCount };
  return { source: 'learned', intervalSeconds: live.cadenceMs / 1000, sampleCount };
}

/** One of schedules is shown 30 days ahead, and one that a person has set always. */
function shownWindowOf(maintained: Maintained, nowMs: number): MaintenanceWindow | undefined {
  const window = windowFrom(maintained, nowMs);
  if (window === undefined || window.startsMs <= nowMs + SHOWN_AHEAD_MS) return window;
  return windowFrom({ maintenance: maintained.maintenance }, nowMs);
}

function presentWindow(window: MaintenanceWindow) {
  return { startsAt: toTime(window.startsMs), endsAt: toTime(window.endsMs), reason: window.reason };
}

export function presentObservation(observation: ObservationRecord): Observation {
  const { receivedMs, observedMs, violations, ...rest } = observation;
  return {
    ...rest,
    receivedAt: toTime(receivedMs),
    observedAt: optionalTime(observedMs),
    // The evaluator writes them in the shape of the contract.
    violations: violations as Observation['violations'],
  };
}

export function presentBucket({ fromMs, toMs, sums }: SeriesBucket): Series['items'][number] {
  return { startAt: toTime(fromMs), endAt: toTime(toMs), count: 0, ...sums };
}

export function presentChange(record: ChangeRecord): MonitorChange {
  const { change, configurationVersion, actor, occurredMs, sourceRequestId } = record;
  const common = { configurationVersion, actor, occurredAt: toTime(occurredMs), sourceRequestId };
  if (change.kind === 'configuration') return { kind: 'configuration', ...common };
  return {
    kind: 'lifecycle',
    ...common,
    action: change.action,
    lifecycleFrom: change.from,
    lifecycleTo: change.to,
    maintenance: change.maintenance && presentWindow(change.maintenance),
  };
}

export function presentFeedItem({ monitor, changeSequence, because }: ExplainedItem): StatusFeedItem {
  const { monitorId, projectId, projectName, lifecycle, configurationVersion } = monitor;
  const origin = monitor.origin && toOriginRecord(monitor.origin);
  const status = presentStatus(monitor);
  const item = { monitorId, projectId, projectName, changeSequence, lifecycle, configurationVersion };
  return { ...item, origin, beatenBy: monitor.beatenBy, status, because };
}
