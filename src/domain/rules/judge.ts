// What an accepted success does to the rules of its monitor: (rules, their state, incidents, success) -> the next state, the
// violations and the incidents that change. Pure: one implementation for live beats, test beats and replays.
import { conformIncident, type Incident, type Transition } from '../incident.ts';
import type { Check, CompiledMeasurement, CompiledRules } from './compile.ts';
import { nextEscalation } from './escalate.ts';
import { isMet } from './policy.ts';
import { RuleIncidents } from './rule-incidents.ts';
import {
  type Evaluated,
  foldStates,
  type Reading,
  type RuleObservation,
  type RuleStates,
  type Violation,
  type ViolationRow,
} from './state.ts';

export interface Judged {
  /** The same object where nothing changes: then there is nothing to write. */
  states: RuleStates;
  /** In the order of keys and of `RULE_KINDS`. Those of inactive rules too. */
  violations: Violation[];
  /** One at most for each incident. */
  transitions: Transition[];
  /** The next moment at which `escalateByTime` has something to do if no beat comes. */
  escalatesMs?: number;
}

export interface JudgeOptions {
  /** Paused or in maintenance: nothing opens, reopens or escalates. Conforming observations still end incidents. */
  quiet: boolean;
  /**
   * The `escalatesMs` that the last judgement answered and that no sweeper has reached. What was due before it has happened:
   * an incident that a person resolved since then does not come back by the time alone.
   */
  escalatesMs?: number;
  /**
   * Measurements whose states were built for this observation, since their definitions have changed: what was due before it is
   * left to the next violation, also in a quiet time.
   */
  built?: readonly string[];
}

/**
 * One accepted success, in the order of sequences. `states`: without stale ones (`staleMeasurements`). `incidents`: those of
 * the monitor that have not ended; others than of rules are ignored.
 */
export function judgeBeat(
  rules: CompiledRules,
  states: RuleStates,
  incidents: readonly Incident[],
  observation: RuleObservation,
  options: JudgeOptions,
): Judged {
  const known = new RuleIncidents(incidents);
  const judge = new Judge(known, observation, options.quiet);
  const next = foldStates(rules, states, observation, judge);
  const { atMs } = observation;
  const from = { afterMs: atMs, fromMs: options.escalatesMs, built: options.built };
  return {
    states: next,
    violations: judge.violations,
    transitions: known.transitions,
    escalatesMs: nextEscalation(rules, next, known, from),
  };
}

class Judge implements Evaluated {
  readonly violations: Violation[] = [];
  readonly #incidents: RuleIncidents;
  readonly #observation: RuleObservation;
  readonly #quiet: boolean;

  constructor(incidents: RuleIncidents, observation: RuleObservation, quiet: boolean) {
    this.#incidents = incidents;
    this.#observation = observation;
    this.#quiet = quiet;
  }

  conforming({ key, isActive, policy }: CompiledMeasurement, { kind }: Check): void {
    const incident = isActive ? this.#incidents.find(key, kind) : undefined;
    if (!incident) return;
    const { sequence, atMs } = this.#observation;
    this.#incidents.keep(conformIncident(incident, { sequence, needed: policy.recoversAfter }, atMs));
  }

  violated(
    measurement: CompiledMeasurement,
    check: Check,
    violation: Violation,
    row: ViolationRow,
    reading: Reading,
  ): void {
    this.violations.push(violation);
    const { key, isActive, policy } = measurement;
    if (!isActive) return;
    const incident = this.#incidents.find(key, check.kind);
    if (this.#quiet) {
      if (incident) this.#count(incident);
      return;
    }
    const { sequence, atMs } = this.#observation;
    const hasMet = isMet(policy, row.row, row.sinceMs, atMs);
    if (incident) {
      const severity = hasMet && policy.raises ? policy.met : undefined;
      this.#incidents.violate(incident, { sequence, severity }, atMs);
      return;
    }
    const severity = hasMet ? policy.met : policy.before;
    if (severity) this.#incidents.open({ measurement, check, row, reading }, severity, atMs);
  }

  /** Nothing opens again now, but conforming observations in a row begin anew. */
  #count(incident: Incident): void {
    const { sequence } = this.#observation;
    const violationCount = incident.violationCount + 1;
    const counted = { ...incident, violationCount, lastSequence: sequence, recoveryCount: 0 };
    this.#incidents.keep({ incident: counted, isNew: false, entries: [] });
  }
}
