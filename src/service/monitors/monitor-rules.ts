// Which rules of measurements a plan allows (docs/contract/organization.md, detector_feature).
import { isDeepStrictEqual } from 'node:util';
import type { MeasurementRule } from '../../domain/monitor.ts';
import { DETECTOR_FEATURES, type DetectorFeature, featureNotInPlan, type Plan } from '../../domain/plan.ts';

/** Where a call states a field of a measurement's rule. */
export type RulePath = (key: string, field: string) => string;

type Rules = Readonly<Record<string, MeasurementRule>>;

/**
 * Throws `plan_limit_reached` for a feature that the plan does not have and that the change states, or states anew: what a
 * larger plan has left stays, and goes on. `pathOf`: the path of a field of a key's rule in the call.
 */
export function requireAllowedRules(
  plan: Plan,
  { before, after }: { before: Rules; after: Rules },
  pathOf: RulePath,
): void {
  for (const [key, rule] of Object.entries(after)) {
    for (const feature of DETECTOR_FEATURES) {
      if (plan.detectorFeatures.includes(feature)) continue;
      const [field, stated] = partOf(rule, feature);
      if (stated === undefined || isDeepStrictEqual(stated, partOf(before[key] ?? {}, feature)[1])) continue;
      throw featureNotInPlan(plan, feature, pathOf(key, field));
    }
  }
}

/** The field of a rule that has the feature, and what it states; undefined where the rule does not use the feature. */
function partOf(rule: MeasurementRule, feature: DetectorFeature): [field: string, stated: unknown] {
  if (feature !== 'sustained') return [feature, rule[feature]];
  const { rulePolicy } = rule;
  return ['rulePolicy', rulePolicy && 'sustainedCriterion' in rulePolicy ? rulePolicy : undefined];
}
