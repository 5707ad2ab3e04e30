// The incidents of a monitor's rules while a beat, or the time, is judged: found by measurement and rule, each change kept.
import {
  escalateIncident,
  hasEnded,
  type Incident,
  openIncident,
  type Severity,
  type Transition,
  violateIncident,
} from '../incident.ts';
import { isGraver, type Policy } from './policy.ts';
import type { RuleKind } from './rule-kinds.ts';
import { type Summarized, summaryOf } from './summary.ts';

export class RuleIncidents {
  readonly transitions: Transition[] = [];
  readonly #live = new Map<string, Incident>();

  /** Incidents of other kinds and ended ones are ignored. */
  constructor(incidents: readonly Incident[]) {
    for (const incident of incidents) {
      const { kind, measurement, rule } = incident;
      if (kind !== 'rule_violation' || measurement === undefined || rule === undefined) continue;
      if (!hasEnded(incident)) this.#live.set(idOf(measurement, rule), incident);
    }
  }

  find(measurement: string, rule: RuleKind): Incident | undefined {
    return this.#live.size === 0 ? undefined : this.#live.get(idOf(measurement, rule));
  }

  open(summarized: Summarized, severity: Severity, nowMs: number): void {
    const { measurement, check, row } = summarized;
    const opening = {
      kind: 'rule_violation',
      severity,
      sequence: row.sequence,
      measurement: measurement.key,
      rule: check.kind,
      summary: summaryOf(summarized),
    } as const;
    this.keep(openIncident(opening, nowMs));
  }

  /** A violation of its rule. `severity`: what it deserves by now; one that is not graver changes nothing. */
  violate(incident: Incident, cause: { sequence: number; severity?: Severity }, nowMs: number): void {
    const violated = violateIncident(incident, cause, nowMs);
    const { severity } = cause;
    if (!isGraver(severity, incident.severity)) {
      this.keep(violated);
      return;
    }
    const escalated = escalateIncident(violated.incident, { severity }, nowMs);
    // One event says both: that it is open again, and how grave it is now.
    this.keep({
      ...escalated,
      entries: [...violated.entries, ...escalated.entries],
      event: { type: 'incident.escalated', previousState: incident.state },
    });
  }

  keep(transition: Transition): void {
    const { incident } = transition;
    this.transitions.push(transition);
    const id = idOf(incident.measurement ?? '', incident.rule ?? '');
    if (hasEnded(incident)) this.#live.delete(id);
    else this.#live.set(id, incident);
  }
}

/** What time raises at the met criterion: an open incident that is less grave, or nothing yet where the policy waits for it. */
export function severityByTime(policy: Policy, incident: Incident | undefined): Severity | undefined {
  if (incident === undefined) return policy.before === undefined ? policy.met : undefined;
  if (incident.state !== 'open' || !isGraver(policy.met, incident.severity)) return undefined;
  return policy.met;
}

function idOf(measurement: string, rule: string): string {
  return `${measurement} ${rule}`;
}
