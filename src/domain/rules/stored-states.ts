// The states of a monitor's rules as its live row has them: a short text, because each beat writes it (docs/adr/0009).
import { type CompiledMeasurement, type CompiledRules, FINGERPRINT_LENGTH } from './compile.ts';
import { type MeasurementState, NO_ROWS, type RuleStates, stateOf, type ViolationRow } from './state.ts';

/** JSON. `raw`, `increase` and `rules` have a place for each fingerprint, and end after the last one that has something. */
interface StoredStates {
  /** The fingerprints, one behind the other. */
  of: string;
  raw?: readonly (number | null)[];
  increase?: readonly (number | null)[];
  rules?: readonly (MeasurementState['rules'] | null)[];
}

/** Undefined where nothing is remembered. Of another definition than that of `rules` nothing is kept. */
export function encodeStates({ judged }: CompiledRules, states: RuleStates): string | undefined {
  let of = '';
  let place = 0;
  const raw: (number | null)[] = [];
  const increase: (number | null)[] = [];
  const rows: (MeasurementState['rules'] | null)[] = [];
  for (const measurement of judged) {
    const state = stateOf(states, measurement.key);
    if (state?.of !== measurement.of) continue;
    of += measurement.of;
    // Those that look back come first.
    if (measurement.looksBack) raw.push(state.raw ?? null);
    if (state.increase !== undefined) put(increase, place, state.increase);
    if (hasRows(state)) put(rows, place, state.rules);
    place += 1;
  }
  if (of === '') return undefined;
  const stored: StoredStates = { of };
  if (raw.length > 0) stored.raw = raw;
  if (increase.length > 0) stored.increase = increase;
  if (rows.length > 0) stored.rules = rows;
  return JSON.stringify(stored);
}

/**
 * The states of those definitions of `rules` that the text knows. What cannot be read is left out, so that it is built again:
 * this never throws, as the text of one monitor must not hold up the others of a batch.
 */
export function decodeStates(rules: CompiledRules, text: string | undefined): RuleStates {
  const states: Record<string, MeasurementState> = {};
  const stored = text === undefined ? undefined : parse(text);
  if (!stored) return states;
  const known = stored.of === rules.fingerprints ? rules.judged : measurementsOf(rules, stored.of);
  for (let place = 0; place < known.length; place += 1) {
    const measurement = known[place];
    if (!measurement) continue;
    const { key, of } = measurement;
    const raw = stored.raw?.[place] ?? undefined;
    const increase = stored.increase?.[place] ?? undefined;
    const rows = stored.rules?.[place] ?? NO_ROWS;
    if (!(isValue(raw) && isValue(increase) && areRows(rows))) continue;
    if (increase !== undefined) states[key] = { of, raw, increase, rules: rows };
    else states[key] = raw === undefined ? { of, rules: rows } : { of, raw, rules: rows };
  }
  return states;
}

/** Undefined for a text that is not of this form: its parts are not looked at. */
function parse(text: string): StoredStates | undefined {
  let stored: Partial<Record<keyof StoredStates, unknown>> | null;
  try {
    stored = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof stored?.of !== 'string') return undefined;
  for (const part of [stored.raw, stored.increase, stored.rules])
    if (part !== undefined && !Array.isArray(part)) return undefined;
  return stored as StoredStates;
}

function isValue(value: unknown): boolean {
  return value === undefined || Number.isFinite(value);
}

function areRows(rows: unknown): boolean {
  if (rows === NO_ROWS) return true;
  if (typeof rows !== 'object') return false;
  return Object.values(rows as object).every(isRow);
}

function isRow(row: Partial<ViolationRow> | null): boolean {
  return [row?.row, row?.sinceMs, row?.sequence, row?.value].every(Number.isFinite);
}

function measurementsOf(
  { judged }: CompiledRules,
  fingerprints: string,
): (CompiledMeasurement | undefined)[] {
  const known = new Map(judged.map((measurement) => [measurement.of, measurement]));
  const found: (CompiledMeasurement | undefined)[] = [];
  for (let at = 0; at < fingerprints.length; at += FINGERPRINT_LENGTH)
    found.push(known.get(fingerprints.slice(at, at + FINGERPRINT_LENGTH)));
  return found;
}

function hasRows({ rules }: MeasurementState): boolean {
  if (rules === NO_ROWS) return false;
  for (const _ in rules) return true;
  return false;
}

/** At its place, with nulls before it. */
function put<Value>(values: (Value | null)[], place: number, value: Value): void {
  while (values.length < place) values.push(null);
  values.push(value);
}
