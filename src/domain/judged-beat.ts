// What the rules of a monitor add to a beat and to a silence: (rules, their states, live state) -> incidents, violations, and
// the next moment at which time makes a rule graver. Pure; domain/rules judges.
import { type BeatResult, countOpen, rearm } from './beat.ts';
import type { BeatInput } from './beat-input.ts';
import type { Incident, Transition } from './incident.ts';
import { type Maintained, windowAt } from './maintenance.ts';
import { type LiveState, type Outage, suppression, type Timing } from './monitor.ts';
import { ProblemError } from './problem.ts';
import type { CompiledRules } from './rules/compile.ts';
import { escalateByTime } from './rules/escalate.ts';
import { findRuleFaults } from './rules/faults.ts';
import { judgeBeat } from './rules/judge.ts';
import type { MeasurementState, RuleStates, Violation } from './rules/state.ts';
import { mayHaveLostBeat } from './silence.ts';

/** The rules of a monitor, and what they remember. */
export interface MonitorRules {
  compiled: CompiledRules;
  /** Without stale ones (`staleMeasurements`). */
  states: RuleStates;
  /** Measurements whose states were stale, and were built for the beat that comes. */
  built?: readonly string[];
}

export interface JudgedBeat {
  result: BeatResult;
  violations: Violation[];
  /** The same object as before where nothing has changed. */
  states: RuleStates;
}

/** Why the rules refuse a beat; only a success is asked. */
export function ruleProblem(
  rules: MonitorRules | undefined,
  { kind, measurements = {} }: BeatInput,
): ProblemError | undefined {
  if (!rules || kind !== 'success') return undefined;
  const fieldErrors = findRuleFaults(rules.compiled, measurements);
  const [first] = fieldErrors;
  if (!first) return undefined;
  const detail = `The measurements do not fit the rules of the monitor. ${first.path}: ${first.message}`;
  return new ProblemError('validation_failed', { detail: detail.slice(0, 1024), fieldErrors });
}

/** Judges an accepted success, of which `result` is what the beat itself has done. `live`: the state before it. */
export function judgeSuccess(
  monitor: { timing: Timing; live: LiveState; incidents: readonly Incident[]; rules: MonitorRules },
  { measurements = {} }: BeatInput,
  result: BeatResult,
  nowMs: number,
): JudgedBeat {
  const { timing, live, incidents, rules } = monitor;
  const observation = { sequence: result.sequence, atMs: nowMs, measurements };
  const quiet = suppression(timing, nowMs) !== undefined;
  const options = { quiet, escalatesMs: live.escalatesMs, built: rules.built };
  const judged = judgeBeat(rules.compiled, rules.states, incidents, observation, options);
  const { states, violations, transitions, escalatesMs } = judged;
  if (transitions.length === 0 && escalatesMs === live.escalatesMs) return { result, violations, states };
  const openIncidents = countOpen(result.live.openIncidents, transitions);
  return {
    states,
    violations,
    result: {
      ...result,
      live: rearm(timing, { ...result.live, openIncidents, escalatesMs }, nowMs),
      transitions: [...result.transitions, ...transitions],
    },
  };
}

/**
 * Whether time has something to do about a rule: what is due up to `horizonMs`. In a maintenance window nothing is; it is
 * looked at after the window.
 */
export function isEscalationDue(
  maintained: Maintained,
  { escalatesMs }: Pick<LiveState, 'escalatesMs'>,
  { nowMs, horizonMs }: { nowMs: number; horizonMs: number },
): boolean {
  return escalatesMs !== undefined && escalatesMs <= horizonMs && !windowAt(maintained, nowMs);
}

export interface RuleMoment {
  nowMs: number;
  /** What is due later stays. */
  horizonMs: number;
  /** As `mergeOutages` returns them. */
  outages: readonly Outage[];
}

/**
 * What the time that passed without a beat does to violated rules. Where a conforming beat may have been lost since the first
 * violation of the row, nothing: the next beat decides. So it is where the states are lost, or belong to other definitions.
 */
export function escalateRules(
  timing: Timing,
  live: LiveState,
  known: { rules?: MonitorRules; incidents: readonly Incident[] },
  moment: RuleMoment,
): { live: LiveState; transitions: Transition[] } {
  if (!isEscalationDue(timing, live, moment)) return { live, transitions: [] };
  if (!known.rules) return { live: { ...live, escalatesMs: undefined }, transitions: [] };
  const { compiled, states } = known.rules;
  const certain = withoutLostBeats(states, live, moment.outages);
  const { nowMs, horizonMs } = moment;
  const since = { horizonMs, fromMs: live.escalatesMs };
  const { transitions, escalatesMs } = escalateByTime(compiled, certain, known.incidents, nowMs, since);
  const openIncidents = countOpen(live.openIncidents, transitions);
  return { live: { ...live, openIncidents, escalatesMs }, transitions };
}

/** The states without rows of violations that a beat nobody has seen may have ended. */
function withoutLostBeats(states: RuleStates, live: LiveState, outages: readonly Outage[]): RuleStates {
  const entries = Object.entries(states).map(([key, state]): [string, MeasurementState] => {
    const rows = Object.entries(state.rules).filter(
      ([, row]) => !mayHaveLostBeat(row.sinceMs, live, outages),
    );
    return [key, { ...state, rules: Object.fromEntries(rows) }];
  });
  return Object.fromEntries(entries);
}

/** The first violation of all rows: outages that ended before it do not matter. Infinity where there is none. */
export function firstViolation(states: RuleStates): number {
  const rows = Object.values(states).flatMap(({ rules }) => Object.values(rules));
  return rows.reduce((firstMs, { sinceMs }) => Math.min(firstMs, sinceMs), Number.POSITIVE_INFINITY);
}
