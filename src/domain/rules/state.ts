// The state of a monitor's rules: a fold over its successes, oldest first. It is a cache: one that is lost, or belongs to
// another definition, is built again from the history (docs/adr/0009-state-of-rules-in-the-live-row.md).
import { comparedOf, crossedBound, currentOf, finite, increaseOf, previousOf, rawOf } from './compare.ts';
import type { Check, CompiledMeasurement, CompiledRules } from './compile.ts';
import { faultOf } from './faults.ts';
import { RULE_KINDS, type RuleKind } from './rule-kinds.ts';

/** As many successes as a state is built from at most. A longer row counts as one of so many, from the oldest of them on. */
export const HISTORY = 200;

/** By key of the measurement. JSON. */
export type RuleStates = Readonly<Record<string, MeasurementState>>;

export interface MeasurementState {
  /** Of which definition it is the state: the fingerprint of the compiled measurement. */
  of: string;
  /** The value of the last success that had the key, as sent. Kept only for what looks back: deltas and counters. */
  raw?: number;
  /** Of a counter: the increase to `raw`. Absent where that was the first value. */
  increase?: number;
  /** Rules that the newest evaluated success violates. Absent: it conforms, or none was evaluated. */
  rules: Readonly<Partial<Record<RuleKind, ViolationRow>>>;
}

/** Violations in a row. Times are in ms. */
export interface ViolationRow {
  /** How many, `HISTORY` at most. */
  row: number;
  /** The first. */
  sinceMs: number;
  /** The newest: its sequence, and what was compared. */
  sequence: number;
  value: number;
}

/** Nothing is violated. */
export const NO_ROWS: MeasurementState['rules'] = {};

/** A success. */
export interface RuleObservation {
  sequence: number;
  /** When it was received. */
  atMs: number;
  measurements: Readonly<Record<string, number>>;
}

export interface Violation {
  measurement: string;
  rule: RuleKind;
  /** The limit that was crossed, or what was expected. */
  bound: number | 'zero' | 'nonzero';
  /** What was compared: the value, the difference, the percentage or the ratio. Finite. */
  value: number;
}

export interface Reading {
  value: number;
  previous?: number;
}

/** Who wants to know of each rule that is evaluated. */
export interface Evaluated {
  /** `row` counts this violation too. `reading`: *v* and *p* before `transform`. */
  violated(
    measurement: CompiledMeasurement,
    check: Check,
    violation: Violation,
    row: ViolationRow,
    reading: Reading,
  ): void;
  conforming(measurement: CompiledMeasurement, check: Check): void;
}

/** Keys whose state is missing, or belongs to another definition: build it from the history before the next beat is judged. */
export function staleMeasurements(rules: CompiledRules, states: RuleStates): string[] {
  const stale: string[] = [];
  for (const { key, of, checks } of rules.measurements.values()) {
    if (checks.length > 0 && stateOf(states, key)?.of !== of) stale.push(key);
  }
  return stale;
}

/**
 * The states with those of `keys` built from `history`: the newest `HISTORY` successes, oldest first. A past success that a
 * definition of today would refuse counts for that measurement as if it had not come.
 */
export function rebuildStates(
  rules: CompiledRules,
  states: RuleStates,
  keys: readonly string[],
  history: readonly RuleObservation[],
): RuleStates {
  const rebuilt: Record<string, MeasurementState> = { ...states };
  const newest = history.slice(-HISTORY);
  for (const key of keys) {
    const measurement = rules.measurements.get(key);
    if (!measurement || measurement.checks.length === 0) continue;
    let state = emptyState(measurement);
    for (const observation of newest) state = foldMeasurement(measurement, state, observation);
    rebuilt[key] = state;
  }
  return rebuilt;
}

/** Folds one success into the states of all measurements. Returns the same object where nothing changes. */
export function foldStates(
  rules: CompiledRules,
  states: RuleStates,
  observation: RuleObservation,
  evaluated?: Evaluated,
): RuleStates {
  let next: Record<string, MeasurementState> | undefined;
  for (const measurement of rules.measurements.values()) {
    if (measurement.checks.length === 0) continue;
    const known = stateOf(states, measurement.key);
    const state = known?.of === measurement.of ? known : emptyState(measurement);
    const after = foldMeasurement(measurement, state, observation, evaluated);
    if (after === known) continue;
    next ??= { ...states };
    next[measurement.key] = after;
  }
  return next ?? states;
}

export function stateOf(states: RuleStates, key: string): MeasurementState | undefined {
  return Object.hasOwn(states, key) ? states[key] : undefined;
}

function emptyState({ of }: CompiledMeasurement): MeasurementState {
  return { of, rules: NO_ROWS };
}

function foldMeasurement(
  measurement: CompiledMeasurement,
  state: MeasurementState,
  observation: RuleObservation,
  evaluated?: Evaluated,
): MeasurementState {
  const { measurements } = observation;
  if (faultOf(measurement, measurements)) return state;
  const raw = rawOf(measurements, measurement.key);
  const value = currentOf(measurement, state, raw);
  const rules =
    value === undefined ? state.rules : foldRules(measurement, state, value, observation, evaluated);
  if (!measurement.looksBack || raw === undefined) return rules === state.rules ? state : { ...state, rules };
  const increase = measurement.metricType === 'counter' ? increaseOf(state, raw) : undefined;
  if (rules === state.rules && raw === state.raw && increase === state.increase) return state;
  return increase === undefined ? { of: state.of, raw, rules } : { of: state.of, raw, increase, rules };
}

function foldRules(
  measurement: CompiledMeasurement,
  state: MeasurementState,
  value: number,
  observation: RuleObservation,
  evaluated: Evaluated | undefined,
): MeasurementState['rules'] {
  const previous = previousOf(measurement, state);
  // Copied once, however many rules change.
  let next: Partial<Record<RuleKind, ViolationRow | undefined>> | undefined;
  for (const check of measurement.checks) {
    const compared = comparedOf(measurement, check, value, previous, observation.measurements);
    if (compared === undefined) continue;
    const { kind } = check;
    const bound = crossedBound(check, compared);
    const before = state.rules[kind];
    if (bound === undefined) {
      if (before) {
        next ??= { ...state.rules };
        next[kind] = undefined;
      }
      evaluated?.conforming(measurement, check);
      continue;
    }
    const violation = { measurement: measurement.key, rule: kind, bound, value: finite(compared) };
    const row = lengthen(before, observation, violation.value);
    next ??= { ...state.rules };
    next[kind] = row;
    evaluated?.violated(measurement, check, violation, row, { value, previous });
  }
  return next ? violatedAlone(next) : state.rules;
}

function violatedAlone(rows: Partial<Record<RuleKind, ViolationRow | undefined>>): MeasurementState['rules'] {
  const violated: Partial<Record<RuleKind, ViolationRow>> = {};
  for (const kind of RULE_KINDS) {
    const row = rows[kind];
    if (row) violated[kind] = row;
  }
  return violated;
}

function lengthen(
  before: ViolationRow | undefined,
  { atMs, sequence }: RuleObservation,
  value: number,
): ViolationRow {
  if (!before) return { row: 1, sinceMs: atMs, sequence, value };
  return { row: Math.min(before.row + 1, HISTORY), sinceMs: before.sinceMs, sequence, value };
}
