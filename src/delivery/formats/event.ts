// Builds the JSON body of a webhook (docs/contract/callbacks.md), at most 16 KiB. The text is stored with the delivery,
// so that every attempt and every redelivery sends the same bytes. It signs and sends nothing.

import type { Actor, IncidentEvent, IncidentKind, IncidentState, Severity } from '../../domain/incident.ts';

/** docs/contract/callbacks.md. Bytes of UTF-8. */
export const MAX_EVENT_BYTES = 16_384;

/** The incident record as the API shows it (docs/contract/incidents.md). Times are RFC 3339. */
export interface EventIncident {
  incidentId: string;
  projectId: string;
  monitorId: string;
  kind: IncidentKind;
  state: IncidentState;
  severity: Severity;
  measurement?: string;
  rule?: string;
  openedAt: string;
  deadlineAt?: string;
  recoveringAt?: string;
  recoveredAt?: string;
  resolvedAt?: string;
  acknowledgedAt?: string;
  acknowledgedBy?: Actor;
  openSequence?: number;
  lastSequence?: number;
  violationCount: number;
  summary: string;
}

export interface EventMonitor {
  monitorId: string;
  name: string;
  labels: Readonly<Record<string, string>>;
  lastBeatAt?: string;
  nextDeadlineAt?: string;
}

export interface IncidentEventInput {
  type: IncidentEvent;
  /** RFC 3339: the moment of the change, not of an attempt. */
  timestamp: string;
  organizationId: string;
  projectId: string;
  projectName: string;
  incident: EventIncident;
  monitor: EventMonitor;
  /** From 1 without gaps in each incident. */
  sequence: number;
  previousState?: IncidentState;
}

export interface TestEventInput {
  timestamp: string;
  organizationId: string;
  projectId: string;
  endpointId: string;
}

/** The body of a test delivery (docs/contract/callbacks.md). */
export function buildTestEvent(event: TestEventInput): string {
  const { timestamp, organizationId, projectId, endpointId } = event;
  return JSON.stringify({
    type: 'callback.test',
    timestamp,
    data: { organizationId, projectId, endpointId },
  });
}

/**
 * The body of an incident event. Where it would be longer than 16 KiB it is cut in this order: labels (the last
 * ones first), then names and words for people (to 64 characters). Ids, times and states are never cut. What was
 * cut is named in `data.truncated`, which is absent otherwise.
 */
export function buildIncidentEvent(event: IncidentEventInput): string {
  const whole = serialize(event, []);
  if (fits(whole)) return whole;
  const withLabels = cutLabels(event);
  if (withLabels) return withLabels;
  return serialize(withShortWords({ ...event, monitor: { ...event.monitor, labels: {} } }), [
    'monitor.labels',
    'monitor.name',
    'projectName',
    'incident.summary',
    'incident.acknowledgedBy.display',
  ]);
}

/** With as many labels as fit, in their order; undefined where it is too long without any. */
function cutLabels(event: IncidentEventInput): string | undefined {
  const labels = Object.entries(event.monitor.labels);
  for (let count = labels.length - 1; count >= 0; count -= 1) {
    const monitor = { ...event.monitor, labels: Object.fromEntries(labels.slice(0, count)) };
    const body = serialize({ ...event, monitor }, ['monitor.labels']);
    if (fits(body)) return body;
  }
  return undefined;
}

function withShortWords(event: IncidentEventInput): IncidentEventInput {
  const { incident } = event;
  const by = incident.acknowledgedBy;
  return {
    ...event,
    projectName: shorten(event.projectName),
    monitor: { ...event.monitor, name: shorten(event.monitor.name) },
    incident: {
      ...incident,
      summary: shorten(incident.summary),
      ...(by ? { acknowledgedBy: { ...by, display: shorten(by.display) } } : {}),
    },
  };
}

/** By characters, so that none is cut in half. */
function shorten(text: string): string {
  const characters = [...text];
  return characters.length <= 64 ? text : `${characters.slice(0, 63).join('')}…`;
}

/** Names each field, so that nothing that a caller's record holds besides gets out. */
function serialize(event: IncidentEventInput, truncated: readonly string[]): string {
  const { incident, monitor } = event;
  return JSON.stringify({
    type: event.type,
    timestamp: event.timestamp,
    data: {
      organizationId: event.organizationId,
      projectId: event.projectId,
      projectName: event.projectName,
      incident: {
        incidentId: incident.incidentId,
        projectId: incident.projectId,
        monitorId: incident.monitorId,
        kind: incident.kind,
        state: incident.state,
        severity: incident.severity,
        measurement: incident.measurement,
        rule: incident.rule,
        openedAt: incident.openedAt,
        deadlineAt: incident.deadlineAt,
        recoveringAt: incident.recoveringAt,
        recoveredAt: incident.recoveredAt,
        resolvedAt: incident.resolvedAt,
        acknowledgedAt: incident.acknowledgedAt,
        acknowledgedBy: incident.acknowledgedBy,
        openSequence: incident.openSequence,
        lastSequence: incident.lastSequence,
        violationCount: incident.violationCount,
        summary: incident.summary,
      },
      monitor: {
        monitorId: monitor.monitorId,
        name: monitor.name,
        labels: monitor.labels,
        lastBeatAt: monitor.lastBeatAt,
        nextDeadlineAt: monitor.nextDeadlineAt,
      },
      sequence: event.sequence,
      previousState: event.previousState,
      truncated: truncated.length > 0 ? truncated : undefined,
    },
  });
}

function fits(body: string): boolean {
  return Buffer.byteLength(body) <= MAX_EVENT_BYTES;
}
