// Monitors as the API shows them (docs/contract/monitors.md): records and live status from what is stored.
import { formatEtag } from '../../contract/fields/headers.ts';
import { measurementRuleWithDefaults } from '../../contract/resources/measurement-rule-patch.ts';
import type { Monitor, MonitorStatus } from '../../contract/resources/monitor.ts';
import type { Observation } from '../../contract/resources/observation.ts';
import { healthOf } from '../../domain/health.ts';
import type { MonitorConfiguration } from '../../domain/monitor.ts';
import type { Caller, ServiceContext } from '../../service/calls/context.ts';
import { optionalTime, toTime } from '../../service/calls/time.ts';
import type { MonitorView } from '../../service/monitors/monitors.ts';
import { publishUrlOf } from '../../service/monitors/publish-address.ts';
import type { ObservationRecord } from '../../store/beats/observations-read.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';

/** What a monitor looks like depends on who asks: only who may manage sees the publish address. */
export interface Viewer {
  context: Pick<ServiceContext, 'publicUrl'>;
  caller: Pick<Caller, 'mayManage'>;
}

export function presentMonitor(monitor: MonitorView, viewer: Viewer): Monitor {
  const { configuration, monitorId, restorableUntilMs } = monitor;
  const { measurements, ...rest } = configuration;
  return {
    monitorId,
    monitorKey: monitorId,
    projectId: monitor.projectId,
    ...rest,
    jurisdiction: monitor.jurisdiction,
    callback: presentBinding(monitor),
    measurements: presentMeasurements(measurements),
    lifecycle: monitor.lifecycle,
    restorableUntil: optionalTime(restorableUntilMs),
    publishUrl: viewer.caller.mayManage ? publishUrlOf(viewer.context, monitor.publishAddress) : undefined,
    configurationVersion: monitor.configurationVersion,
    createdAt: toTime(monitor.createdMs),
    updatedAt: toTime(monitor.updatedMs),
    status: presentStatus(monitor),
  };
}

/** The `ETag` header of a monitor. */
export function monitorEtag(monitor: Pick<MonitorRecord, 'configurationVersion'>): { etag: string } {
  return { etag: formatEtag('configuration', monitor.configurationVersion) };
}

export function presentBinding({ binding, inlineUrl }: MonitorView): Monitor['callback'] {
  switch (binding.kind) {
    case 'named':
      return { kind: 'named', alias: binding.alias ?? '' };
    case 'inline':
      return { kind: 'inline', url: inlineUrl ?? '' };
    default:
      return { kind: binding.kind };
  }
}

function presentMeasurements(measurements: MonitorConfiguration['measurements']): Monitor['measurements'] {
  const rules = Object.entries(measurements);
  return Object.fromEntries(rules.map(([key, rule]) => [key, measurementRuleWithDefaults(rule)]));
}

/** Live status at the moment of the read. */
export function presentStatus(monitor: MonitorRecord): MonitorStatus {
  const { live, lifecycle, maintenance, openIncidents, nowMs } = monitor;
  const graceMs = monitor.configuration.graceSeconds * 1000;
  const shownWindow =
    lifecycle === 'active' && maintenance && maintenance.endsMs > nowMs ? maintenance : undefined;
  return {
    health: healthOf({ lifecycle, maintenance, graceMs }, live, openIncidents, nowMs),
    firstBeatAt: optionalTime(live.firstBeatMs),
    lastBeatAt: optionalTime(live.lastBeatMs),
    lastSequence: live.lastSequence,
    nextDeadlineAt: optionalTime(live.deadlineMs),
    cadence: presentCadence(monitor),
    maintenance: shownWindow && presentWindow(shownWindow),
    openIncidents: openIncidents.map(({ openedMs, ...incident }) => ({
      ...incident,
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

export function presentWindow(window: { startsMs: number; endsMs: number; reason?: string }) {
  return { startsAt: toTime(window.startsMs), endsAt: toTime(window.endsMs), reason: window.reason };
}

export function presentObservation(observation: ObservationRecord): Observation {
  const { receivedMs, observedMs, violations, ...rest } = observation;
  return {
    ...rest,
    receivedAt: toTime(receivedMs),
    observedAt: optionalTime(observedMs),
    // Written by the evaluator in the shape of the contract.
    violations: violations as Observation['violations'],
  };
}
