// A monitor that lives by the evaluator as its callers let it: the beat path, changes of the configuration, and a sweeper that
// is never late (src/domain/judged-beat.ts, src/service/monitors/removed-rules.ts).
import { hasEnded, type Incident, type Transition } from '../../../src/domain/incident.ts';
import { AFTER_A_BEAT } from '../../../src/domain/monitor.ts';
import { type CompiledRules, compileRules } from '../../../src/domain/rules/compile.ts';
import { escalateByTime } from '../../../src/domain/rules/escalate.ts';
import { findRuleFaults } from '../../../src/domain/rules/faults.ts';
import { judgeBeat } from '../../../src/domain/rules/judge.ts';
import type { RuleKind } from '../../../src/domain/rules/rule-kinds.ts';
import {
  type RuleObservation,
  type RuleStates,
  rebuildStates,
  staleMeasurements,
  type Violation,
} from '../../../src/domain/rules/state.ts';
import { decodeStates, encodeStates } from '../../../src/domain/rules/stored-states.ts';
import type { PlainIncident } from './reference.ts';
import { type Definitions, ownOf } from './reference-violations.ts';

export class Living {
  readonly events: string[] = [];
  /** Each success that came. */
  readonly came: { observation: RuleObservation; isTaken: boolean }[] = [];
  readonly all = new Map<string, Incident>();
  /** As the live row has it. */
  #stored: string | undefined;
  #rules: CompiledRules = compileRules({});
  #escalatesMs: number | undefined;

  change(definitions: Definitions, nowMs: number): void {
    const after = compileRules(definitions);
    this.#stored = encodeStates(after, decodeStates(after, this.#stored));
    this.#rules = after;
    if (this.#escalatesMs !== AFTER_A_BEAT) {
      const nextMs = Math.min(this.#escalatesMs ?? nowMs, nowMs);
      this.#escalatesMs = after.byTime.length === 0 ? undefined : nextMs;
    }
    for (const { incidentId, measurement = '', rule } of this.live) {
      const judged = ownOf(definitions, measurement);
      const stands = judged?.[rule as RuleKind] !== undefined && judged.ruleAction?.mode !== 'inactive';
      if (!stands) this.#end(incidentId);
    }
  }

  /** A person does it. */
  resolve(measurement: string, rule: string): void {
    const found = this.live.find((one) => one.measurement === measurement && one.rule === rule);
    if (found) this.#end(found.incidentId);
  }

  loseStates(): void {
    this.#stored = undefined;
  }

  beat(observation: RuleObservation, quiet: boolean): Violation[] | 'refused' {
    const isTaken = findRuleFaults(this.#rules, observation.measurements).length === 0;
    if (!isTaken) {
      this.came.push({ observation, isTaken });
      const hasRules = this.#escalatesMs !== undefined || this.#stored !== undefined;
      this.#escalatesMs = hasRules ? AFTER_A_BEAT : undefined;
      return 'refused';
    }
    const built = staleMeasurements(this.#rules, decodeStates(this.#rules, this.#stored));
    const options = { quiet, escalatesMs: this.#escalatesMs, built };
    const judged = judgeBeat(this.#rules, this.states, this.live, observation, options);
    this.#stored = encodeStates(this.#rules, judged.states);
    this.#escalatesMs = judged.escalatesMs;
    this.came.push({ observation, isTaken });
    this.#keep(judged.transitions);
    return judged.violations;
  }

  /** A time that is not quiet, until before `toMs`. What was due in a quiet time before is due at `fromMs`. */
  pass(fromMs: number, toMs: number): void {
    while (this.#escalatesMs !== undefined && this.#escalatesMs < toMs && fromMs < toMs) {
      const dueMs = this.#escalatesMs;
      const nowMs = Math.max(dueMs, fromMs);
      const states = decodeStates(this.#rules, this.#stored);
      const moment = { fromMs: dueMs, horizonMs: nowMs };
      const passed = escalateByTime(this.#rules, states, this.live, nowMs, moment);
      this.#escalatesMs = passed.escalatesMs;
      this.#keep(passed.transitions);
    }
  }

  /** Something was due in a quiet time that has not ended. */
  isPending(nowMs: number): boolean {
    return this.#escalatesMs !== undefined && this.#escalatesMs < nowMs;
  }

  /** The successes that were taken. */
  get history(): RuleObservation[] {
    return this.came.flatMap(({ observation, isTaken }) => (isTaken ? [observation] : []));
  }

  /** In the order of opening. */
  get incidents(): PlainIncident[] {
    return [...this.all.values()].map(plain);
  }

  /** Those that have not ended. */
  get live(): Incident[] {
    return [...this.all.values()].filter((incident) => !hasEnded(incident));
  }

  /** With those that had to be built. */
  get states(): RuleStates {
    const known = decodeStates(this.#rules, this.#stored);
    return rebuildStates(this.#rules, known, staleMeasurements(this.#rules, known), this.history);
  }

  #end(incidentId: string): void {
    const incident = this.all.get(incidentId);
    if (incident) this.all.set(incidentId, { ...incident, state: 'resolved' });
  }

  #keep(transitions: readonly Transition[]): void {
    for (const { incident, event } of transitions) {
      this.all.set(incident.incidentId, incident);
      const { measurement, rule } = incident;
      if (event) this.events.push(`${event.type.slice(9)} ${measurement} ${rule} ${incident.severity}`);
    }
  }
}

export function plain(incident: Incident): PlainIncident {
  const { measurement = '', rule = '', state, severity: grave, openedMs } = incident;
  const { openSequence = 0, lastSequence = 0, violationCount, recoveryCount } = incident;
  const numbers = { openSequence, lastSequence, violationCount, recoveryCount };
  return { measurement, rule, state, severity: grave, openedMs, ...numbers };
}
