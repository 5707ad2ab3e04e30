// The state of each rule of a monitor at one moment (docs/contract/monitors.md). Pure.
import type { Check, CompiledMeasurement, CompiledRules } from '../rules/compile.ts';
import type { RuleKind } from '../rules/rule-kinds.ts';
import { type RuleObservation, rebuildStates, staleMeasurements, type ViolationRow } from '../rules/state.ts';

/** The rules of a monitor with the successes that they have judged. */
export interface RulesThen {
  compiled: CompiledRules;
  /** Oldest first: the newest `HISTORY` before the moment. */
  history: readonly RuleObservation[];
}

export interface ExplainedRule {
  measurement: string;
  rule: RuleKind;
  /** As it was sent last, with a success. */
  lastValue?: number;
  bound: number | 'zero' | 'nonzero';
  violationsInRow: number;
  /** How many in a row open an incident. Undefined where none are enough: time alone opens it, or nothing does. */
  opensAt?: number;
  isActive: boolean;
}

/** Counted again from the history: nothing that is remembered is needed, so a moment in the past is as good as now. */
export function explainRules({ compiled, history }: RulesThen): ExplainedRule[] {
  const states = rebuildStates(compiled, {}, staleMeasurements(compiled, {}), history);
  return [...compiled.measurements.values()].flatMap((measurement) => {
    const { key, checks, isActive } = measurement;
    const lastValue = history.findLast(({ measurements }) => Object.hasOwn(measurements, key))?.measurements[
      key
    ];
    return checks.map((check) => {
      const row = states[key]?.rules[check.kind];
      return {
        measurement: key,
        rule: check.kind,
        lastValue,
        bound: boundOf(check, row),
        violationsInRow: row?.row ?? 0,
        opensAt: opensAt(measurement),
        isActive,
      };
    });
  });
}

/** Of a ratio with two bounds the one that is crossed, else the upper one. */
function boundOf({ expects, low, high }: Check, row: ViolationRow | undefined): ExplainedRule['bound'] {
  if (expects !== undefined) return expects;
  if (high === Number.POSITIVE_INFINITY) return low;
  return row !== undefined && row.value < low ? low : high;
}

function opensAt({ isActive, policy }: CompiledMeasurement): number | undefined {
  if (!isActive) return undefined;
  if (policy.before !== undefined) return 1;
  return policy.met === undefined ? undefined : policy.observations;
}
