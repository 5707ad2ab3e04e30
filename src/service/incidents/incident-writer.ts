// Writes what the state machine decided: incidents, timelines and the outbox, for any number of monitors at once, in
// the caller's transaction. The caller holds the locks of the live rows and writes those rows itself.
import { buildIncidentEvent } from '../../delivery/formats/event.ts';
import { isHeld, unsentReason } from '../../domain/held-alerts.ts';
import { newId } from '../../domain/id.ts';
import type { Incident, TimelineEntry, Transition } from '../../domain/incident.ts';
import { type MonitorOrigin, toOriginRecord } from '../../domain/origin.ts';
import { insertDeliveries, type OutboxRow } from '../../store/deliveries/deliveries.ts';
import {
  type IncidentRow,
  insertTimelineEntries,
  type TimelineRow,
  updateIncidents,
} from '../../store/incidents/incidents.ts';
import { insertIncidents, type OpenedIncident } from '../../store/incidents/opened-incidents.ts';
import { countDependents } from '../../store/monitors/dependencies.ts';
import { type LiveRow, type MonitorRef, updateWoken } from '../../store/monitors/live.ts';
import { findOrigins } from '../../store/monitors/monitor-origins.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { allAnswered } from '../../store/postgres/transaction.ts';
import { type BindingItem, resolveTargets, type TargetResult } from '../callbacks/callback-targets.ts';

/** A monitor whose incidents changed, with what alerts show of the monitor. */
export interface MonitorTransitions extends MonitorRef {
  monitorId: string;
  jurisdiction: string;
  name: string;
  labels: Readonly<Record<string, string>>;
  binding: BindingItem['binding'];
  organizationId: string;
  projectName: string;
  lastBeatMs?: number;
  nextDeadlineMs?: number;
  /** The object that declares it, or null, read in this transaction. Absent: it is looked up. */
  origin?: MonitorOrigin | null;
  /** Why alerts are suppressed (docs/contract/incidents.md): the timeline records it. */
  suppressed?: 'paused' | 'maintenance';
  /** Where its alerts go, read in this transaction. Absent: it is looked up. */
  target?: TargetResult;
  transitions: Transition[];
}

type ToldMonitor = MonitorTransitions & { origin?: MonitorOrigin; dependents?: number };

interface Written {
  opened: OpenedIncident[];
  changed: IncidentRow[];
  timeline: TimelineRow[];
  /** Events of incidents that changed. */
  outbox: OutboxRow[];
}

/**
 * Writes the transitions at `nowMs` (the database's clock), and the live rows of monitors that were woken. Nothing is sent
 * here: the sweeper sends committed rows.
 */
export async function recordTransitions(
  tx: Queryable,
  monitors: readonly MonitorTransitions[],
  nowMs: number,
  woken: readonly LiveRow[] = [],
): Promise<void> {
  const changed = monitors.filter((monitor) => monitor.transitions.length > 0);
  if (changed.length === 0) return await updateWoken(tx, woken);
  const alerting = changed.filter(
    (monitor) => !monitor.suppressed && monitor.transitions.some((transition) => transition.event),
  );
  // Caches of monitors do not know whether the object is gone. The timeline tells of it too, where the alert is held.
  const telling = changed.filter(
    (monitor) =>
      !monitor.suppressed && monitor.transitions.some(({ event, incident }) => event || isHeld(incident)),
  );
  const unbound = alerting.filter(({ target }) => target === undefined);
  const unknown = telling.filter(({ origin }) => origin === undefined);
  const opening = alerting.filter(({ transitions }) => transitions.some(tellsOfCause));
  const [targets, origins] =
    telling.length > 0
      ? await allAnswered([resolveTargets(tx, unbound), findOrigins(tx, unknown)])
      : [new Map<string, TargetResult>(), new Map<string, MonitorOrigin>()];
  // By itself: a connection without a pipeline takes one statement at a time.
  const dependents = await countDependents(tx, opening);
  const written: Written = { opened: [], changed: [], timeline: [], outbox: [] };
  for (const monitor of changed) {
    const { monitorKey } = monitor;
    const told = {
      ...monitor,
      origin: monitor.origin ?? origins.get(monitorKey),
      dependents: dependents.get(monitorKey),
    };
    collect(told, monitor.target ?? targets.get(monitorKey), nowMs, written);
  }

  await insertIncidents(tx, { openedMs: nowMs, incidents: written.opened, woken });
  await updateIncidents(tx, written.changed);
  await insertTimelineEntries(tx, written.timeline);
  await insertDeliveries(tx, written.outbox, nowMs);
}

function collect(
  monitor: ToldMonitor,
  target: TargetResult | undefined,
  nowMs: number,
  written: Written,
): void {
  const { projectId, monitorKey, monitorId, jurisdiction } = monitor;
  for (const transition of monitor.transitions) {
    const { incident, entries, delivery } = alert(monitor, transition, target, nowMs);
    const row = { projectId, monitorKey, monitorId, jurisdiction, incident };
    if (transition.isNew) {
      written.opened.push({ ...row, openedDetail: entries.find(isOpened)?.detail, delivery });
    } else {
      written.changed.push(row);
      if (delivery) written.outbox.push(delivery);
    }
    // The row of the incident is its entry `opened`.
    for (const entry of entries) {
      if (!isOpened(entry)) written.timeline.push({ projectId, incidentId: incident.incidentId, entry });
    }
  }
}

/** The alert says how many monitors depend on the one that is at fault. */
function tellsOfCause({ event }: Transition): boolean {
  return event !== undefined && event.type !== 'incident.recovered' && event.type !== 'incident.resolved';
}

function isOpened({ type }: TimelineEntry): boolean {
  return type === 'opened';
}

/** The delivery of the event, or a timeline entry with the reason why no alert is sent. */
function alert(
  monitor: ToldMonitor,
  transition: Transition,
  target: TargetResult | undefined,
  nowMs: number,
): { incident: Incident; entries: TimelineEntry[]; delivery?: OutboxRow } {
  const { incident, event } = transition;
  const entries = transition.entries.map((entry) => withOrphan(entry, monitor.origin));
  if (!event) return { incident, entries };
  const reason = monitor.suppressed ?? unsentReason(transition) ?? reasonOf(target);
  if (reason !== undefined || !target || !('target' in target)) {
    const suppressed: TimelineEntry = {
      type: 'suppressed',
      atMs: nowMs,
      detail: { event: event.type, reason: reason ?? 'disabled' },
    };
    return { incident, entries: [...entries, suppressed] };
  }
  const sequence = incident.eventSequence + 1;
  const body = buildIncidentEvent({
    type: event.type,
    atMs: nowMs,
    organizationId: monitor.organizationId,
    projectId: monitor.projectId,
    projectName: monitor.projectName,
    incident,
    monitor,
    sequence,
    previousState: event.previousState,
    cause: transition.cause,
  });
  const { endpointId, projectId: endpointProjectId, readMs } = target.target;
  const delivery: OutboxRow = {
    projectId: monitor.projectId,
    deliveryId: newId('dlv', readMs),
    createdMs: readMs,
    endpointId,
    endpointProjectId,
    incidentId: incident.incidentId,
    monitorKey: monitor.monitorKey,
    monitorId: monitor.monitorId,
    event: event.type,
    sequence,
    webhookId: newId('msg', readMs),
    body,
  };
  return { incident: { ...incident, eventSequence: sequence }, entries, delivery };
}

/** The timeline tells of a gone object too, where the alert goes nowhere. */
function withOrphan(entry: TimelineEntry, origin: MonitorOrigin | undefined): TimelineEntry {
  const isOpening = entry.type === 'opened' || entry.type === 'reopened';
  if (!isOpening || origin?.orphanedMs === undefined) return entry;
  return { ...entry, detail: { ...entry.detail, origin: toOriginRecord(origin) } };
}

function reasonOf(target: TargetResult | undefined): string | undefined {
  return target && 'unavailableReason' in target ? target.unavailableReason : undefined;
}
