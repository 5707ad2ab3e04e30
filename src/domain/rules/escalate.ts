// What the passing of time does to violated rules whose policy counts it: an incident becomes graver, or opens, although no
// beat comes. Pure; the sweeper calls it when the moment that the last judgement answered has come.
import { escalateIncident, type Incident, type Transition } from '../incident.ts';
import type { Check, CompiledMeasurement, CompiledRules } from './compile.ts';
import { RuleIncidents, severityByTime } from './rule-incidents.ts';
import { type RuleStates, stateOf, type ViolationRow } from './state.ts';

export interface EscalationMoment {
  /** What is due later stays. Default: `nowMs`. */
  horizonMs?: number;
  /** The moment that the last judgement answered: what was due before it has happened. Default: all is looked at. */
  fromMs?: number;
}

/**
 * Opens and escalates what is due by elapsed time. `states`: without stale ones. `incidents`: those of the monitor that have
 * not ended. The caller keeps it from monitors that are paused, in maintenance or of a suspended organization.
 * `escalatesMs`: the next moment, if no beat comes.
 */
export function escalateByTime(
  rules: CompiledRules,
  states: RuleStates,
  incidents: readonly Incident[],
  nowMs: number,
  { horizonMs = nowMs, fromMs = Number.NEGATIVE_INFINITY }: EscalationMoment = {},
): { transitions: Transition[]; escalatesMs?: number } {
  const known = new RuleIncidents(incidents);
  for (const { measurement, check, row, dueMs } of violatedRows(rules, states)) {
    if (dueMs < fromMs || dueMs > horizonMs) continue;
    const incident = known.find(measurement.key, check.kind);
    const severity = severityByTime(measurement.policy, incident);
    if (!severity) continue;
    if (incident) known.keep(escalateIncident(incident, { severity }, nowMs));
    else known.open({ measurement, check, row }, severity, nowMs);
  }
  return {
    transitions: known.transitions,
    escalatesMs: nextEscalation(rules, states, known, { afterMs: horizonMs }),
  };
}

/**
 * The next moment at which time changes something, after `afterMs`; and from `fromMs` on, where that is set, but for the
 * measurements of `built`.
 */
export function nextEscalation(
  rules: CompiledRules,
  states: RuleStates,
  incidents: RuleIncidents,
  { afterMs, fromMs, built = [] }: { afterMs: number; fromMs?: number; built?: readonly string[] },
): number | undefined {
  if (rules.byTime.length === 0) return undefined;
  let next: number | undefined;
  for (const { measurement, check, dueMs } of violatedRows(rules, states)) {
    const isBuilt = fromMs !== undefined && built.includes(measurement.key);
    const sinceMs = isBuilt ? Math.max(fromMs, afterMs) : fromMs;
    const hasPassed = dueMs <= afterMs && (sinceMs === undefined || dueMs < sinceMs);
    if (hasPassed || (next !== undefined && dueMs >= next)) continue;
    if (severityByTime(measurement.policy, incidents.find(measurement.key, check.kind))) next = dueMs;
  }
  return next;
}

interface DueRow {
  measurement: CompiledMeasurement;
  check: Check;
  row: ViolationRow;
  /** When its criterion is met. */
  dueMs: number;
}

function violatedRows({ byTime }: CompiledRules, states: RuleStates): DueRow[] {
  const due: DueRow[] = [];
  for (const measurement of byTime) {
    const state = stateOf(states, measurement.key);
    if (state?.of !== measurement.of) continue;
    for (const check of measurement.checks) {
      const row = state.rules[check.kind];
      if (row)
        due.push({ measurement, check, row, dueMs: row.sinceMs + (measurement.policy.elapsedMs ?? 0) });
    }
  }
  return due;
}
