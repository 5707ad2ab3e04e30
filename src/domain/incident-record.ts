// The public record of an incident, the same in the API and in alerts (docs/contract/incidents.md). It names each
// field, so that nothing else of an incident becomes visible.
import type {
  Actor,
  Incident,
  IncidentKind,
  IncidentState,
  Severity,
  SuppressedBy,
  SuppressingIncident,
} from './incident.ts';
import type { NamedCause } from './operator-cause.ts';
import { optionalTime, toTime } from './timestamp.ts';

/** Times are RFC 3339. */
export interface IncidentRecord {
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
  suppressedBy?: SuppressingIncident | NamedCause;
  summary: string;
}

/** `of`: the monitor of the incident. */
export function toIncidentRecord(
  of: { projectId: string; monitorId: string },
  incident: Incident,
): IncidentRecord {
  return {
    incidentId: incident.incidentId,
    projectId: of.projectId,
    monitorId: of.monitorId,
    kind: incident.kind,
    state: incident.state,
    severity: incident.severity,
    measurement: incident.measurement,
    rule: incident.rule,
    openedAt: toTime(incident.openedMs),
    deadlineAt: optionalTime(incident.deadlineMs),
    recoveringAt: optionalTime(incident.recoveringMs),
    recoveredAt: optionalTime(incident.recoveredMs),
    resolvedAt: optionalTime(incident.resolvedMs),
    acknowledgedAt: optionalTime(incident.acknowledgedMs),
    acknowledgedBy: incident.acknowledgedBy,
    openSequence: incident.openSequence,
    lastSequence: incident.lastSequence,
    violationCount: incident.violationCount,
    suppressedBy: incident.suppressedBy && shownCause(incident.suppressedBy),
    summary: summaryOf(incident),
  };
}

/** The cause of an incident, as people see it. */
export function shownCause(by: SuppressedBy): SuppressingIncident | NamedCause {
  return 'cause' in by
    ? { cause: by.cause, object: by.object }
    : { monitorId: by.monitorId, incidentId: by.incidentId };
}

/** The summary is what opened the incident: of one that is over it must not read like a new one. */
function summaryOf({ state, summary }: Incident): string {
  if (state === 'recovered') return `Recovered: ${summary}`;
  return state === 'resolved' ? `Resolved: ${summary}` : summary;
}
