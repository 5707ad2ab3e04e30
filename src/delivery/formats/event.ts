// Builds an event in the standard format (docs/contract/callbacks.md), at most 16 KiB. The text is stored with the
// delivery, so that every attempt and every redelivery sends the same bytes. It signs and sends nothing.
import { dependentsSentence } from '../../domain/dependency.ts';
import type { Incident, IncidentEvent, IncidentState } from '../../domain/incident.ts';
import { toIncidentRecord } from '../../domain/incident-record.ts';
import { type AlertedCause, causeSentence } from '../../domain/operator-cause.ts';
import { type MonitorOrigin, orphanSentence, toOriginRecord } from '../../domain/origin.ts';
import { optionalTime, toTime } from '../../domain/timestamp.ts';

/** docs/contract/callbacks.md. Bytes of UTF-8. */
export const MAX_EVENT_BYTES = 16_384;

export interface EventMonitor {
  monitorId: string;
  name: string;
  labels: Readonly<Record<string, string>>;
  lastBeatMs?: number;
  nextDeadlineMs?: number;
  /** The object of the cluster that declares it. */
  origin?: MonitorOrigin;
  /** How many monitors depend on it. */
  dependents?: number;
}

export interface IncidentEventInput {
  type: IncidentEvent;
  /** The moment of the change, not of an attempt. */
  atMs: number;
  organizationId: string;
  projectId: string;
  projectName: string;
  incident: Incident;
  monitor: EventMonitor;
  /** From 1 without gaps in each incident. */
  sequence: number;
  previousState?: IncidentState;
  /** That the alert names. */
  cause?: AlertedCause;
}

export interface TestEventInput {
  atMs: number;
  organizationId: string;
  projectId: string;
  endpointId: string;
}

/** The body of a test delivery (docs/contract/callbacks.md). */
export function buildTestEvent(event: TestEventInput): string {
  const { atMs, organizationId, projectId, endpointId } = event;
  return JSON.stringify({
    type: 'callback.test',
    timestamp: toTime(atMs),
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

/** With as many labels as fit, in their order; undefined where the body is too long without any. */
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

/** Names each field, so that nothing else of a caller's record is sent. */
function serialize(event: IncidentEventInput, truncated: readonly string[]): string {
  const { monitor, projectId, cause } = event;
  const { monitorId, origin } = monitor;
  const incident = toIncidentRecord({ projectId, monitorId }, event.incident);
  return JSON.stringify({
    type: event.type,
    timestamp: toTime(event.atMs),
    data: {
      organizationId: event.organizationId,
      projectId,
      projectName: event.projectName,
      incident: {
        ...incident,
        summary: [
          incident.summary,
          cause ? causeSentence(cause) : [],
          dependentsSentence(monitor.dependents) ?? [],
          orphanSentence(origin) ?? [],
        ]
          .flat()
          .join(' '),
      },
      cause: cause && { cause: cause.cause, object: cause.object, monitors: cause.monitors },
      monitor: {
        monitorId,
        name: monitor.name,
        labels: monitor.labels,
        lastBeatAt: optionalTime(monitor.lastBeatMs),
        nextDeadlineAt: optionalTime(monitor.nextDeadlineMs),
        origin: origin && toOriginRecord(origin),
        dependents: monitor.dependents,
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
