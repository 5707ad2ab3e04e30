// The Rule custom resource: its spec and status as zod, with CEL rules (docs/contract/kubernetes.md, "Rule").
import { z } from 'zod';
import { integer, LABEL_KEY_PATTERN, labelValue, MAX_SAFE } from '../fields/field.ts';
import { localRef, observedStatus, pendingConditions, withRules, withSentence } from './resource-fields.ts';
import { resourceMeasurementKey, resourceRule } from './resource-measurements.ts';
import { ruleReplayStatus } from './rule-replay.ts';
import { celString } from './structural.ts';

const MAX_REQUIREMENTS = 16;
const MAX_VALUES = 64;

const labelKey = withRules(z.string().min(1).max(317), {
  rule: `self.matches(${celString(LABEL_KEY_PATTERN)})`,
  message:
    'Use a Kubernetes label key: an optional DNS prefix and "/", then letters, digits, "-", "_" or ".".',
});
const selectedValue = withSentence(
  labelValue,
  'Must be a Kubernetes label value: letters, digits, "-", "_" or ".".',
);

const requirement = withRules(
  z.strictObject({
    key: labelKey,
    operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
    values: z.array(selectedValue).max(MAX_VALUES).meta({ 'x-kubernetes-list-type': 'atomic' }).optional(),
  }),
  {
    rule: "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
    message: 'Set values for the operators In and NotIn, and for no other.',
  },
);

/** metav1.LabelSelector. */
const selector = z
  .strictObject({
    matchLabels: withRules(z.record(z.string(), selectedValue).meta({ maxProperties: MAX_REQUIREMENTS }), {
      rule: `self.all(key, size(key) <= 317 && key.matches(${celString(LABEL_KEY_PATTERN)}))`,
      message:
        'Use Kubernetes label keys: an optional DNS prefix and "/", then letters, digits, "-", "_" or ".".',
    }).optional(),
    matchExpressions: z
      .array(requirement)
      .max(MAX_REQUIREMENTS)
      .meta({ 'x-kubernetes-list-type': 'atomic' })
      .optional(),
  })
  .describe('The Monitors of this namespace that have these labels; an empty one finds all.');
export type LabelSelector = z.output<typeof selector>;

export const ruleResourceSpec = withRules(
  z.strictObject({
    monitorRef: localRef.optional().describe('One Monitor of this namespace.'),
    selector: selector.optional(),
    measurementKey: resourceMeasurementKey.describe('The measurement that the rule is about.'),
    definition: resourceRule.describe('What values are expected. It is the whole rule of the measurement.'),
    rollout: z
      .enum(['Apply', 'Replay'])
      .default('Apply')
      .describe(
        '`Apply`: the Monitors get the rule. `Replay`: it is replayed over what they have measured, and nothing changes.',
      ),
  }),
  {
    rule: 'has(self.monitorRef) != has(self.selector)',
    message: 'Set either monitorRef or selector.',
  },
  {
    rule: '!has(self.definition.ratio) || self.definition.ratio.denominator != self.measurementKey',
    message: 'Name another measurement as the denominator: a ratio to itself is always 1.',
  },
);
export type RuleResourceSpec = z.output<typeof ruleResourceSpec>;

export const RULE_PENDING = pendingConditions(['Synced', 'Ready']);

const count = integer(0, MAX_SAFE);

export const ruleResourceStatus = z.object({
  ...observedStatus(RULE_PENDING),
  monitors: z
    .object({
      progress: z.string().describe('How far it has come: `applied 3,120 of 10,000`.'),
      matched: count.describe('Monitors that the Rule is about.'),
      applied: count.describe('Those that have this definition.'),
      pending: count.describe('Those that do not have it yet.'),
      overridden: count.describe('Those that state the measurement in their own spec.'),
      conflicted: count.describe('Those that have the measurement from an older Rule.'),
      refused: count.describe('Those that cannot have it; the conditions say why.'),
    })
    .optional(),
  replay: ruleReplayStatus.optional(),
  display: z
    .object({
      monitors: z.string().optional().describe('Such as `12`, or `3/12` while it is being applied.'),
    })
    .optional(),
});
export type RuleResourceStatus = z.output<typeof ruleResourceStatus>;
