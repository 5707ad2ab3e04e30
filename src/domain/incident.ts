// The incident state machine (docs/contract/incidents.md): (incident, cause, now) -> the next incident, its timeline
// entries, and the event to send. Pure; the writer holds the lock of the monitor's live row.
import { newId } from './id.ts';
import type { AlertedCause, KnownCause } from './operator-cause.ts';

export const INCIDENT_KINDS = [
  'missed_deadline',
  'reported_failure',
  'overdue_run',
  'rule_violation',
] as const;
export type IncidentKind = (typeof INCIDENT_KINDS)[number];

export const INCIDENT_STATES = ['open', 'recovering', 'recovered', 'resolved'] as const;
export type IncidentState = (typeof INCIDENT_STATES)[number];

export const SEVERITIES = ['info', 'warning', 'critical'] as const;
export type Severity = (typeof SEVERITIES)[number];

export const INCIDENT_EVENTS = [
  'incident.opened',
  'incident.escalated',
  'incident.reopened',
  'incident.recovered',
  'incident.resolved',
  'incident.acknowledged',
] as const;
export type IncidentEvent = (typeof INCIDENT_EVENTS)[number];

/** What a beat does to an incident, in one word (docs/contract/beats.md). */
export const INCIDENT_CHANGES = ['open', 'escalate', 'recover'] as const;
export type IncidentChange = (typeof INCIDENT_CHANGES)[number];

export const TIMELINE_TYPES = [
  'opened',
  'escalated',
  'recovering',
  'reopened',
  'recovered',
  'resolved',
  'acknowledged',
  'note',
  'delivery',
  'service_outage',
  'suppressed',
  'released',
] as const;
export type TimelineType = (typeof TIMELINE_TYPES)[number];

export const ACTOR_KINDS = ['api_credential', 'session', 'operator', 'system'] as const;

export interface Actor {
  kind: (typeof ACTOR_KINDS)[number];
  id: string;
  display: string;
}

/** The actor of what happens without a principal: deadlines, expiry. */
export const SYSTEM_ACTOR: Actor = { kind: 'system', id: 'beatkeeper', display: 'Beatkeeper' };

/** The cause of an incident at another monitor. */
export interface SuppressingIncident {
  monitorId: string;
  incidentId: string;
}

/** The cause of an incident: at a monitor that its own one depends on, or as the operator sees it. */
export type SuppressedBy = SuppressingIncident | KnownCause;

/** An incident as the state machine sees it. Times are in ms. */
export interface Incident {
  incidentId: string;
  kind: IncidentKind;
  state: IncidentState;
  severity: Severity;
  measurement?: string;
  rule?: string;
  openedMs: number;
  deadlineMs?: number;
  recoveringMs?: number;
  recoveredMs?: number;
  resolvedMs?: number;
  acknowledgedMs?: number;
  acknowledgedBy?: Actor;
  openSequence?: number;
  lastSequence?: number;
  violationCount: number;
  recoveryCount: number;
  summary: string;
  /** Events sent so far. */
  eventSequence: number;
  /** When the last opened, escalated or reopened alert was due. */
  alertedMs?: number;
  /** Until then the alert of what has opened is held (`held-alerts.ts`). */
  heldMs?: number;
  /** Its cause has an alert of its own: nobody was told of this one, or not of its last opening. */
  suppressedBy?: SuppressedBy;
  /** When it last opened again, and the deadline that was missed then. */
  reopenedMs?: number;
  reopenedDeadlineMs?: number;
}

export interface TimelineEntry {
  type: TimelineType;
  atMs: number;
  from?: IncidentState;
  to?: IncidentState;
  actor?: Actor;
  note?: string;
  detail?: Record<string, unknown>;
}

export interface Transition {
  incident: Incident;
  isNew: boolean;
  entries: TimelineEntry[];
  event?: { type: IncidentEvent; previousState?: IncidentState };
  /** The cause that its alert names, if no other alert at the endpoint has. */
  cause?: AlertedCause;
}

/** An incident that flaps sends no second alert within this time (docs/contract/incidents.md). */
export const REALERT_MS = 5 * 60_000;

export interface Opening {
  kind: IncidentKind;
  severity: Severity;
  summary: string;
  deadlineMs?: number;
  sequence?: number;
  measurement?: string;
  rule?: string;
}

export function openIncident(opening: Opening, nowMs: number): Transition {
  const { sequence, ...rest } = opening;
  return {
    isNew: true,
    incident: {
      ...rest,
      // The list of incidents has the order of their ids: by `openedMs`.
      incidentId: newId('inc', nowMs),
      state: 'open',
      openedMs: nowMs,
      openSequence: sequence,
      lastSequence: sequence,
      violationCount: 1,
      recoveryCount: 0,
      eventSequence: 0,
      alertedMs: nowMs,
    },
    entries: [{ type: 'opened', atMs: nowMs, to: 'open' }],
    event: { type: 'incident.opened' },
  };
}

/** The cause occurred again: an open incident counts it, a recovering incident reopens. */
export function violateIncident(
  incident: Incident,
  cause: { sequence?: number; deadlineMs?: number },
  nowMs: number,
): Transition {
  const counted: Incident = {
    ...incident,
    violationCount: incident.violationCount + 1,
    lastSequence: cause.sequence ?? incident.lastSequence,
    recoveryCount: 0,
  };
  if (incident.state !== 'recovering') return { incident: counted, isNew: false, entries: [] };
  const quiet = incident.alertedMs !== undefined && nowMs - incident.alertedMs < REALERT_MS;
  // The incident keeps the deadline that opened it, as its `openedAt` and its summary do.
  const detail =
    cause.deadlineMs === undefined
      ? {}
      : { detail: { deadlineAt: new Date(cause.deadlineMs).toISOString() } };
  return {
    isNew: false,
    incident: {
      ...counted,
      state: 'open',
      recoveringMs: undefined,
      alertedMs: quiet ? incident.alertedMs : nowMs,
      reopenedMs: nowMs,
      reopenedDeadlineMs: cause.deadlineMs,
    },
    entries: [{ type: 'reopened', atMs: nowMs, from: 'recovering', to: 'open', ...detail }],
    event: quiet ? undefined : { type: 'incident.reopened', previousState: 'recovering' },
  };
}

/** It got graver: `severity` is above that of the incident. Always an alert, which counts as the last one of a flapping incident. */
export function escalateIncident(
  incident: Incident,
  cause: { severity: Severity; sequence?: number },
  nowMs: number,
): Transition {
  const { severity } = cause;
  return {
    isNew: false,
    incident: {
      ...incident,
      severity,
      lastSequence: cause.sequence ?? incident.lastSequence,
      alertedMs: nowMs,
    },
    entries: [{ type: 'escalated', atMs: nowMs, detail: { from: incident.severity, to: severity } }],
    event: { type: 'incident.escalated', previousState: incident.state },
  };
}

/** A conforming beat: the incident becomes recovering, and recovered after `needed` beats in a row. */
export function conformIncident(
  incident: Incident,
  cause: { sequence: number; needed: number },
  nowMs: number,
): Transition {
  const entries: TimelineEntry[] = [];
  let next: Incident = {
    ...incident,
    lastSequence: cause.sequence,
    recoveryCount: incident.recoveryCount + 1,
  };
  if (next.state === 'open') {
    next = { ...next, state: 'recovering', recoveringMs: nowMs };
    entries.push({ type: 'recovering', atMs: nowMs, from: 'open', to: 'recovering' });
  }
  if (next.recoveryCount < cause.needed) return { incident: next, isNew: false, entries };
  entries.push({ type: 'recovered', atMs: nowMs, from: 'recovering', to: 'recovered' });
  return {
    isNew: false,
    incident: { ...next, state: 'recovered', recoveredMs: nowMs },
    entries,
    event: { type: 'incident.recovered', previousState: incident.state },
  };
}

/** Ends an incident by an action or an archive. Undefined if it has ended. */
export function resolveIncident(
  incident: Incident,
  by: { actor: Actor; note?: string },
  nowMs: number,
): Transition | undefined {
  if (hasEnded(incident)) return undefined;
  return {
    isNew: false,
    incident: { ...incident, state: 'resolved', resolvedMs: nowMs },
    entries: [{ type: 'resolved', atMs: nowMs, from: incident.state, to: 'resolved', ...by }],
    event: { type: 'incident.resolved', previousState: incident.state },
  };
}

/** Somebody has taken it on. Undefined if it has ended; a second acknowledgement changes nothing and sends no event. */
export function acknowledgeIncident(
  incident: Incident,
  by: { actor: Actor; note?: string },
  nowMs: number,
): Transition | undefined {
  if (hasEnded(incident)) return undefined;
  if (incident.acknowledgedMs !== undefined) return { incident, isNew: false, entries: [] };
  return {
    isNew: false,
    incident: { ...incident, acknowledgedMs: nowMs, acknowledgedBy: by.actor },
    entries: [{ type: 'acknowledged', atMs: nowMs, ...by }],
    event: { type: 'incident.acknowledged', previousState: incident.state },
  };
}

export function hasEnded(incident: Pick<Incident, 'state'>): boolean {
  return incident.state === 'recovered' || incident.state === 'resolved';
}

/** Whether success beats end incidents of this kind (`recoveryBeats`); conforming observations end those of rules. */
export function recoversByBeat(kind: IncidentKind): boolean {
  return kind !== 'rule_violation';
}

/** Whether an open incident makes its monitor `down` (docs/contract/monitors.md). */
export function makesDown(incident: Pick<Incident, 'kind' | 'severity'>): boolean {
  return recoversByBeat(incident.kind) || incident.severity === 'critical';
}
