// A measurement rule and the checks between its fields (docs/contract/rules.md). It validates and describes a rule; it
// evaluates none.
import { z } from 'zod';
import { SEVERITIES } from '../../domain/incident.ts';
import { RULE_KINDS, type RuleKind } from '../../domain/rules/rule-kinds.ts';
import { integer, measurementKey, severity, text, unlessMissing } from '../fields/field.ts';

export const MAX_MEASUREMENTS = 64;

const consequence = z.enum(['none', ...SEVERITIES]);
const versionOne = z.literal(1, { error: unlessMissing('Must be 1.') });

export const sustainedCriterion = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('observations'), observations: integer(1, 10) }),
  z.strictObject({ kind: z.literal('elapsed_time'), seconds: integer(1, 604_800) }),
]);

export const consecutivePolicy = z.strictObject({ consecutiveObservations: integer(1, 10), severity });
export const sustainedPolicy = z.strictObject({
  version: versionOne,
  transientConsequence: consequence,
  sustainedConsequence: consequence,
  sustainedCriterion,
});

export const rulePolicy = z
  .union([consecutivePolicy, sustainedPolicy])
  .describe(
    'Consecutive (`consecutiveObservations`, `severity`) or sustained (`version`, `transientConsequence`, `sustainedConsequence`, `sustainedCriterion`), never both.',
  );

export const ruleAction = z.strictObject({ mode: z.enum(['inactive', 'active']), version: versionOne });

const bound = z.number();
const deltaBound = z.number().min(0);
const zeroExpectation = z.enum(['zero', 'nonzero']);

const ratioShape = {
  denominator: measurementKey.describe('The measurement to divide by. Not this one itself.'),
  minimum: bound.nullable().optional(),
  maximum: bound.nullable().optional(),
};

/** Every field of a rule as a caller may state it. Null: no such rule. */
export const measurementRuleShape = {
  metricType: z.enum(['gauge', 'count', 'rate', 'duration', 'counter', 'size']).optional(),
  minimum: bound.nullable().optional(),
  maximum: bound.nullable().optional(),
  maximumAbsoluteDelta: deltaBound.nullable().optional(),
  maximumPercentageDelta: deltaBound.nullable().optional(),
  zeroExpectation: zeroExpectation.nullable().optional(),
  ratio: z.strictObject(ratioShape).nullable().optional(),
  missingPolicy: z.enum(['skip', 'zero', 'reject']).optional(),
  transform: z.enum(['none', 'log1p']).optional(),
  unit: text({ minimum: 1, maximum: 64 }).optional(),
  ruleAction: ruleAction.optional(),
  rulePolicy: rulePolicy.optional(),
  disabledRules: z
    .array(z.enum(RULE_KINDS))
    .max(8)
    .optional()
    .describe('Rules to remove, whatever their fields say.'),
  mode: z.literal('heartbeat', { error: unlessMissing('Must be "heartbeat".') }).optional(),
};

export const measurementRuleFields = z.strictObject(measurementRuleShape);
export type MeasurementRuleInput = z.output<typeof measurementRuleFields>;

export interface RuleFault {
  path: string[];
  code: string;
  message: string;
}

/** The rules that a definition has, without nulls and `disabledRules`. */
export function rulesOf(rule: MeasurementRuleInput): RuleKind[] {
  return RULE_KINDS.filter((kind) => {
    if (rule.disabledRules?.includes(kind)) return false;
    return rule[kind] !== undefined && rule[kind] !== null;
  });
}

/** The faults between the fields of one rule (docs/contract/rules.md). `key`: the measurement of the rule. */
export function measurementRuleFaults(rule: MeasurementRuleInput, key?: string): RuleFault[] {
  const faults = [...boundsFaults(rule, []), ...ratioFaults(rule, key)];
  const rules = rulesOf(rule);
  if (rule.ruleAction?.mode === 'active' && rules.length === 0) {
    faults.push({
      path: ['ruleAction', 'mode'],
      code: 'rule_required',
      message: 'State at least one rule that is not disabled, or use "inactive".',
    });
  }
  if (rule.transform === 'log1p' && rules.length === 1 && rules[0] === 'zeroExpectation') {
    faults.push({
      path: ['transform'],
      code: 'transform_not_applicable',
      message: 'Use "none": log1p does not apply to zeroExpectation alone.',
    });
  }
  return faults;
}

function ratioFaults(rule: MeasurementRuleInput, key: string | undefined): RuleFault[] {
  if (!rule.ratio || rule.disabledRules?.includes('ratio')) return [];
  const faults = boundsFaults(rule.ratio, ['ratio']);
  if (typeof rule.ratio.minimum !== 'number' && typeof rule.ratio.maximum !== 'number') {
    faults.push({ path: ['ratio'], code: 'bound_required', message: 'State minimum, maximum or both.' });
  }
  if (rule.ratio.denominator === key) {
    faults.push({
      path: ['ratio', 'denominator'],
      code: 'denominator_is_itself',
      message: 'Name another measurement: a ratio to itself is always 1.',
    });
  }
  return faults;
}

interface Bounds {
  minimum?: number | null;
  maximum?: number | null;
  disabledRules?: readonly string[];
}

function boundsFaults({ minimum, maximum, disabledRules }: Bounds, path: string[]): RuleFault[] {
  if (typeof minimum !== 'number' || typeof maximum !== 'number' || minimum <= maximum) return [];
  if (disabledRules?.includes('minimum') || disabledRules?.includes('maximum')) return [];
  return [
    {
      path: [...path, 'minimum'],
      code: 'minimum_above_maximum',
      message: 'Must be at most the maximum.',
    },
  ];
}

function reportFaults(faults: RuleFault[], context: z.RefinementCtx): void {
  for (const { path, code, message } of faults) {
    context.addIssue({ code: 'custom', message, path, params: { code } });
  }
}

/** A rule as it is read back: without nulls and disabled rules, with defaults filled in. */
export const measurementRuleRecord = z
  .object({
    ...measurementRuleShape,
    minimum: bound.optional(),
    maximum: bound.optional(),
    maximumAbsoluteDelta: deltaBound.optional(),
    maximumPercentageDelta: deltaBound.optional(),
    zeroExpectation: zeroExpectation.optional(),
    ratio: z
      .object({ denominator: measurementKey, minimum: bound.optional(), maximum: bound.optional() })
      .optional(),
    mode: z.string().optional(),
  })
  .omit({ disabledRules: true })
  .describe('A rule on a measurement, with defaults filled in. Each accepted success is judged by it.');
export type MeasurementRuleRecord = z.output<typeof measurementRuleRecord>;

/** A ratio in a patch may state some of its fields: the others stay. */
const ratioPatch = z.strictObject({ ...ratioShape, denominator: ratioShape.denominator.optional() });

/**
 * The patch of one measurement (RFC 7396): every field may be null. `ruleAction` and `rulePolicy` are stated as a whole
 * (docs/contract/rules.md). `mergeMeasurementRule` makes the checks that need the merged rule.
 */
export const measurementRulePatch = z
  .strictObject({
    metricType: measurementRuleShape.metricType.nullable(),
    minimum: measurementRuleShape.minimum,
    maximum: measurementRuleShape.maximum,
    maximumAbsoluteDelta: measurementRuleShape.maximumAbsoluteDelta,
    maximumPercentageDelta: measurementRuleShape.maximumPercentageDelta,
    zeroExpectation: measurementRuleShape.zeroExpectation,
    ratio: ratioPatch.nullable().optional(),
    missingPolicy: measurementRuleShape.missingPolicy.nullable(),
    transform: measurementRuleShape.transform.nullable(),
    unit: measurementRuleShape.unit.nullable(),
    ruleAction: measurementRuleShape.ruleAction.nullable(),
    rulePolicy: measurementRuleShape.rulePolicy.nullable(),
    disabledRules: measurementRuleShape.disabledRules.nullable(),
    mode: measurementRuleShape.mode.nullable(),
  })
  .superRefine((rule, context) => {
    reportFaults(boundsFaults({ ...rule, disabledRules: rule.disabledRules ?? [] }, []), context);
    if (rule.ratio) reportFaults(boundsFaults(rule.ratio, ['ratio']), context);
  })
  .describe('The patch of a rule on a measurement.');
export type MeasurementRulePatch = z.output<typeof measurementRulePatch>;
