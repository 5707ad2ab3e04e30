// A monitor with rules as the callers of the evaluator keep it, for tests that go step by step.
import type { Incident, Transition } from '../../../src/domain/incident.ts';
import type { MeasurementRule, SustainedPolicy } from '../../../src/domain/monitor.ts';
import { type CompiledRules, compileRules } from '../../../src/domain/rules/compile.ts';
import { escalateByTime } from '../../../src/domain/rules/escalate.ts';
import { type Judged, judgeBeat } from '../../../src/domain/rules/judge.ts';
import { type RuleStates, rebuildStates, staleMeasurements } from '../../../src/domain/rules/state.ts';
import { decodeStates, encodeStates } from '../../../src/domain/rules/stored-states.ts';

export const START = Date.UTC(2026, 0, 1);
export const MINUTE = 60_000;

/** With one rule set: a beat each minute. */
export class RuledMonitor {
  rules: CompiledRules;
  states: RuleStates = {};
  incidents: Incident[] = [];
  escalatesMs: number | undefined;
  sequence = 0;
  nowMs = START;

  constructor(rows: MeasurementRule, others: Record<string, MeasurementRule> = {}) {
    this.rules = compileRules({ rows, ...others });
    this.states = rebuildStates(this.rules, {}, staleMeasurements(this.rules, {}), []);
  }

  beat(measurements: Record<string, number>, { quiet = false, afterMs = MINUTE } = {}): Judged {
    this.nowMs += afterMs;
    this.sequence += 1;
    const observation = { sequence: this.sequence, atMs: this.nowMs, measurements };
    const { escalatesMs } = this;
    const judged = judgeBeat(this.rules, this.states, this.incidents, observation, { quiet, escalatesMs });
    this.states = decodeStates(this.rules, encodeStates(this.rules, judged.states));
    this.escalatesMs = judged.escalatesMs;
    this.#keep(judged.transitions);
    return judged;
  }

  pass(nowMs: number): Transition[] {
    this.nowMs = nowMs;
    const from = { fromMs: this.escalatesMs };
    const passed = escalateByTime(this.rules, this.states, this.incidents, nowMs, from);
    this.escalatesMs = passed.escalatesMs;
    this.#keep(passed.transitions);
    return passed.transitions;
  }

  #keep(transitions: Transition[]): void {
    for (const { incident } of transitions) {
      this.incidents = this.incidents.filter(({ incidentId }) => incidentId !== incident.incidentId);
      if (incident.state === 'open' || incident.state === 'recovering') this.incidents.push(incident);
    }
  }
}

export const events = ({ transitions }: { transitions: Transition[] }) =>
  transitions.map(({ event }) => event?.type);
export const openOnes = ({ incidents }: RuledMonitor) =>
  incidents.map(({ state, severity }) => `${state} ${severity}`);

export function sustained(
  sustainedCriterion: SustainedPolicy['sustainedCriterion'],
  transientConsequence: SustainedPolicy['transientConsequence'] = 'info',
): SustainedPolicy {
  return { version: 1, transientConsequence, sustainedConsequence: 'critical', sustainedCriterion };
}
