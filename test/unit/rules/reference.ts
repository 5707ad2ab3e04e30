// The evaluator in its slowest and plainest form, from the tables of docs/contract/rules.md: it keeps no state of a rule. It
// shares nothing with src/domain/rules but types. What violates a rule: reference-violations.ts. What its policy says of that:
// reference-policy.ts.
import type { Severity } from '../../../src/domain/incident.ts';
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import type { RuleKind } from '../../../src/domain/rules/rule-kinds.ts';
import type { RuleObservation, Violation } from '../../../src/domain/rules/state.ts';
import { consequencesOf, elapsedOf, isGraver, meets, neededOf } from './reference-policy.ts';
import {
  type Definitions,
  isRefused,
  judgesAlike,
  kindsOf,
  outcomeOf,
  ownOf,
  rowOf,
  violationsOf,
} from './reference-violations.ts';

/** An incident of a rule, as far as rules decide it. */
export interface PlainIncident {
  measurement: string;
  rule: string;
  state: string;
  severity: Severity;
  openedMs: number;
  openSequence: number;
  lastSequence: number;
  violationCount: number;
  recoveryCount: number;
}

/** What opens at one moment has no order. */
export function sorted<T extends PlainIncident>(incidents: readonly T[]): T[] {
  const order = ({ openedMs, measurement, rule }: T) => `${openedMs} ${measurement} ${rule}`;
  return [...incidents].sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

/** A monitor that is lived through by the rules of the document. */
export class Reference {
  readonly events: string[] = [];
  readonly incidents: PlainIncident[] = [];
  readonly #history: RuleObservation[] = [];
  #definitions: Definitions = {};
  /** When the alert of an incident was sent last. */
  readonly #alertedMs = new Map<PlainIncident, number>();
  /** What the time alone does before it has been done. */
  #doneMs = Number.NEGATIVE_INFINITY;
  /** Of a measurement: what the time alone would do before it is left to the next violation. */
  readonly #waitsMs = new Map<string, number>();
  /** Measurements that are judged otherwise since the last success. */
  readonly #changed = new Set<string>();
  /** A success was refused since the last one that was taken. */
  #isUncertain = false;

  change(definitions: Definitions, nowMs: number): void {
    for (const key of Object.keys({ ...this.#definitions, ...definitions })) {
      const [before, after] = [ownOf(this.#definitions, key), ownOf(definitions, key)];
      if (JSON.stringify(before) !== JSON.stringify(after)) this.#waitsMs.set(key, nowMs);
      if (!judgesAlike(before, after)) this.#changed.add(key);
    }
    this.#definitions = definitions;
    for (const incident of this.#live()) {
      const rule = ownOf(definitions, incident.measurement);
      const stands = rule && rule[incident.rule as RuleKind] !== undefined;
      if (!stands || rule.ruleAction?.mode === 'inactive') incident.state = 'resolved';
    }
  }

  /** A person does it. */
  resolve(measurement: string, rule: string): void {
    const incident = this.#find(measurement, rule);
    if (incident) incident.state = 'resolved';
  }

  /** The time alone would open it again, by a policy that has come since it opened: nothing says whether it should. */
  comesByTime(measurement: string, kind: RuleKind, nowMs: number): boolean {
    const rule = ownOf(this.#definitions, measurement);
    const elapsedMs = rule && elapsedOf(rule);
    if (!rule || elapsedMs === undefined || consequencesOf(rule).before !== 'none') return false;
    const [first] = rowOf(measurement, kind, rule, this.#history);
    return first !== undefined && first.atMs + elapsedMs >= nowMs;
  }

  beat(observation: RuleObservation, quiet: boolean): Violation[] | 'refused' {
    if (isRefused(this.#definitions, observation)) {
      this.#isUncertain = true;
      return 'refused';
    }
    this.#history.push(observation);
    if (this.#isUncertain) this.#doneMs = observation.atMs;
    this.#isUncertain = false;
    for (const key of this.#changed) this.#waitsMs.set(key, observation.atMs);
    this.#changed.clear();
    for (const [key, rule] of Object.entries(this.#definitions)) {
      if (rule.ruleAction?.mode === 'inactive') continue;
      for (const kind of kindsOf(rule)) this.#judge(key, kind, rule, observation, quiet);
    }
    return violationsOf(this.#definitions, this.#history);
  }

  /** The time between two beats, or a part of it, in which the monitor is not quiet: `toMs` excluded. */
  pass(fromMs: number, toMs: number): void {
    if (toMs <= fromMs) return;
    const sinceMs = this.#doneMs;
    this.#doneMs = toMs;
    if (this.#isUncertain) return;
    for (const [key, rule] of Object.entries(this.#definitions)) {
      const elapsedMs = elapsedOf(rule);
      if (elapsedMs === undefined || this.#changed.has(key)) continue;
      for (const kind of kindsOf(rule)) {
        const row = rowOf(key, kind, rule, this.#history);
        const dueMs = (row[0]?.atMs ?? Number.POSITIVE_INFINITY) + elapsedMs;
        const isDone = dueMs < Math.max(sinceMs, this.#waitsMs.get(key) ?? sinceMs);
        const newest = row.at(-1);
        if (isDone || dueMs >= toMs || !newest) continue;
        this.#raise(key, kind, rule, { newest, atMs: Math.max(dueMs, fromMs) });
      }
    }
  }

  /** How many violations in a row the rule has by now. */
  inRow(key: string, kind: RuleKind): number {
    const rule = ownOf(this.#definitions, key);
    return rule ? rowOf(key, kind, rule, this.#history).length : 0;
  }

  #raise(
    measurement: string,
    kind: RuleKind,
    rule: MeasurementRule,
    { newest, atMs }: { newest: RuleObservation; atMs: number },
  ): void {
    const { before, after } = consequencesOf(rule);
    const incident = this.#find(measurement, kind);
    if (!incident) {
      if (before === 'none' && after !== 'none') this.#open(measurement, kind, after, newest.sequence, atMs);
    } else if (incident.state === 'open') this.#escalate(incident, after, atMs);
  }

  #judge(
    key: string,
    kind: RuleKind,
    rule: MeasurementRule,
    { sequence, atMs }: RuleObservation,
    quiet: boolean,
  ) {
    const outcome = outcomeOf(key, kind, rule, this.#history);
    if (!outcome) return;
    const incident = this.#find(key, kind);
    if (outcome === 'conforms') {
      if (incident) this.#conform(incident, rule, sequence);
      return;
    }
    const row = rowOf(key, kind, rule, this.#history);
    const isMet = meets(rule, row, atMs);
    const { before, after, isSustained } = consequencesOf(rule);
    if (incident) {
      incident.violationCount += 1;
      incident.lastSequence = sequence;
      incident.recoveryCount = 0;
      if (quiet) return;
      const escalates = isMet && isSustained && isGraver(after, incident.severity);
      if (incident.state === 'recovering') {
        incident.state = 'open';
        // The escalation, where there is one, is the alert of both.
        if (!escalates && atMs - (this.#alertedMs.get(incident) ?? 0) >= 300_000)
          this.#alert('reopened', incident, atMs);
      }
      if (escalates) this.#escalate(incident, after, atMs);
      return;
    }
    const severity = isMet ? after : before;
    if (!quiet && severity !== 'none') this.#open(key, kind, severity, sequence, atMs);
  }

  #conform(incident: PlainIncident, rule: MeasurementRule, sequence: number): void {
    incident.lastSequence = sequence;
    incident.recoveryCount += 1;
    incident.state = incident.recoveryCount >= neededOf(rule) ? 'recovered' : 'recovering';
    if (incident.state === 'recovered') this.#note('recovered', incident);
  }

  #escalate(incident: PlainIncident, to: 'none' | Severity, atMs: number): void {
    if (to === 'none' || !isGraver(to, incident.severity)) return;
    incident.severity = to;
    this.#alert('escalated', incident, atMs);
  }

  #open(measurement: string, rule: string, severity: Severity, sequence: number, openedMs: number): void {
    const numbers = { openSequence: sequence, lastSequence: sequence, violationCount: 1, recoveryCount: 0 };
    const incident = { measurement, rule, state: 'open', severity, openedMs, ...numbers };
    this.incidents.push(incident);
    this.#alert('opened', incident, openedMs);
  }

  #alert(event: string, incident: PlainIncident, atMs: number): void {
    this.#alertedMs.set(incident, atMs);
    this.#note(event, incident);
  }

  #note(event: string, { measurement, rule, severity }: PlainIncident): void {
    this.events.push(`${event} ${measurement} ${rule} ${severity}`);
  }

  #live(): PlainIncident[] {
    return this.incidents.filter(({ state }) => state === 'open' || state === 'recovering');
  }

  #find(measurement: string, rule: string): PlainIncident | undefined {
    return this.#live().find((one) => one.measurement === measurement && one.rule === rule);
  }
}
