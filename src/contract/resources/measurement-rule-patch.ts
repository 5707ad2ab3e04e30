// Merges a patch into the rule of a measurement, and shows a stored rule. Pure. A stored rule is sparse: without nulls,
// without disabled rules, without defaults.
import { isDeepStrictEqual } from 'node:util';
import type { MeasurementRule } from '../../domain/monitor.ts';
import {
  type MeasurementRuleInput,
  type MeasurementRulePatch,
  type MeasurementRuleRecord,
  measurementRuleFaults,
  measurementRuleFields,
  type RuleFault,
  rulesOf,
} from './measurement-rule.ts';

export type MergedRule = { rule: MeasurementRule } | { faults: RuleFault[] };

/**
 * RFC 7396 for one measurement: nulls and `disabledRules` remove rules (docs/contract/rules.md). `rulePolicy` and
 * `ruleAction` are replaced as a whole: the two shapes of a policy never mix. The paths of faults begin below the key.
 */
export function mergeMeasurementRule(
  key: string,
  current: MeasurementRule | undefined,
  patch: MeasurementRulePatch,
): MergedRule {
  const ratio = patch.ratio ? { ...current?.ratio, ...patch.ratio } : patch.ratio;
  const stated = withoutNulls({ ...current, ...patch, ...(ratio === undefined ? {} : { ratio }) });
  const parsed = measurementRuleFields.safeParse(stated);
  if (!parsed.success) return { faults: missingDenominator() };

  const merged = parsed.data;
  // An action of an earlier patch ends with the last rule. An action of this patch must have a rule.
  if (!patch.ruleAction && rulesOf(merged).length === 0) delete merged.ruleAction;
  const faults = measurementRuleFaults(merged, key);
  return faults.length > 0 ? { faults } : { rule: withoutDefaults(withoutDisabledRules(merged)) };
}

/** Both sides are valid by themselves: only a ratio that was never stated completely can lack a field. */
function missingDenominator(): RuleFault[] {
  const message = 'State the measurement to divide by.';
  return [{ path: ['ratio', 'denominator'], code: 'required', message }];
}

function withoutNulls(value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const kept = Object.entries(value).filter(([, field]) => field !== null && field !== undefined);
  return Object.fromEntries(
    kept.map(([name, field]) => [
      name,
      name === 'ratio' ? withoutNulls(field as Record<string, unknown>) : field,
    ]),
  );
}

function withoutDisabledRules(rule: MeasurementRuleInput): MeasurementRule {
  const removed = new Set<string>([...(rule.disabledRules ?? []), 'disabledRules']);
  const kept = Object.entries(rule).filter(([name]) => !removed.has(name));
  // The nulls are removed: the rest has the stored shape.
  return Object.fromEntries(kept) as MeasurementRule;
}

/**
 * Stating a default changes nothing: a caller can send back what it read, and the version stays. `inactive` is kept even
 * without a rule: it applies to later rules.
 */
function withoutDefaults(rule: MeasurementRule): MeasurementRule {
  const defaults = new Map<string, unknown>(Object.entries(defaultsOf(rule)));
  if (rule.ruleAction?.mode === 'inactive') defaults.delete('ruleAction');
  const kept = Object.entries(rule).filter(([name, value]) => !isDeepStrictEqual(value, defaults.get(name)));
  return Object.fromEntries(kept) as MeasurementRule;
}

/** The defaults of a rule that states only its bounds (docs/contract/rules.md). */
function defaultsOf(rule: MeasurementRule): MeasurementRuleRecord {
  const hasRules = rulesOf(rule).length > 0;
  return {
    metricType: 'gauge',
    missingPolicy: 'skip',
    transform: 'none',
    mode: 'heartbeat',
    ...(hasRules ? { rulePolicy: { consecutiveObservations: 1, severity: 'warning' } } : {}),
    ruleAction: { mode: hasRules ? 'active' : 'inactive', version: 1 },
  };
}

/** A stored rule with its defaults, as reads show it. */
export function measurementRuleWithDefaults(rule: MeasurementRule): MeasurementRuleRecord {
  return { ...defaultsOf(rule), ...rule };
}
