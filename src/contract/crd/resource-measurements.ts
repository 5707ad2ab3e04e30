// A measurement rule in a custom resource (docs/contract/rules.md): the fields of the contract without nulls, with unions
// flattened and the rules between fields in CEL. Numbers stay numbers and pass to the API unchanged.
import { z } from 'zod';
import { RULE_KINDS } from '../../domain/rules/rule-kinds.ts';
import { integer } from '../fields/field.ts';
import {
  consecutivePolicy,
  MAX_MEASUREMENTS,
  measurementRuleShape,
  ruleAction,
  sustainedPolicy,
} from '../resources/measurement-rule.ts';
import { trimmedText, withRules, withSentence } from './resource-fields.ts';

const shape = measurementRuleShape;
const bound = z.number().optional();
const deltaBound = z.number().min(0).optional();

const BOUNDS_RULE = {
  rule: '!has(self.minimum) || !has(self.maximum) || self.minimum <= self.maximum',
  message: 'Set minimum to at most maximum.',
};

export const resourceMeasurementKey = withSentence(
  z
    .string()
    .min(1)
    .max(64)
    .regex(/^[a-z][a-z0-9_]{0,63}$/),
  'Must start with a lower-case letter, then lower-case letters, digits or "_".',
);

const ratio = withRules(
  z.strictObject({ denominator: resourceMeasurementKey, minimum: bound, maximum: bound }),
  BOUNDS_RULE,
  {
    rule: 'has(self.minimum) || has(self.maximum)',
    message: 'Set minimum, maximum or both.',
  },
);

const sustainedCriterion = withRules(
  z.strictObject({
    kind: z.enum(['observations', 'elapsed_time']),
    observations: integer(1, 10).optional(),
    seconds: integer(1, 604_800).optional(),
  }),
  {
    rule: "self.kind == 'observations' ? has(self.observations) && !has(self.seconds) : has(self.seconds) && !has(self.observations)",
    message:
      'Set observations for the kind observations, or seconds for the kind elapsed_time, and not the other.',
  },
);

const CONSECUTIVE = ['consecutiveObservations', 'severity'];
const SUSTAINED = ['version', 'transientConsequence', 'sustainedConsequence', 'sustainedCriterion'];
const all = (fields: string[]) => fields.map((field) => `has(self.${field})`).join(' && ');
const none = (fields: string[]) => fields.map((field) => `!has(self.${field})`).join(' && ');

const rulePolicy = withRules(
  z.strictObject({
    consecutiveObservations: consecutivePolicy.shape.consecutiveObservations.optional(),
    severity: consecutivePolicy.shape.severity.optional(),
    version: sustainedPolicy.shape.version.optional(),
    transientConsequence: sustainedPolicy.shape.transientConsequence.optional(),
    sustainedConsequence: sustainedPolicy.shape.sustainedConsequence.optional(),
    sustainedCriterion: sustainedCriterion.optional(),
  }),
  {
    rule: `(${all(CONSECUTIVE)} && ${none(SUSTAINED)}) || (${all(SUSTAINED)} && ${none(CONSECUTIVE)})`,
    message: `Set either ${CONSECUTIVE.join(' and ')}, or ${SUSTAINED.join(', ')}, all of them and none of the others.`,
  },
);

/** CEL: the rule of this kind is stated and not disabled. */
const stands = (kind: string) =>
  `(has(self.${kind}) && !(has(self.disabledRules) && '${kind}' in self.disabledRules))`;
const others = RULE_KINDS.filter((kind) => kind !== 'zeroExpectation');

/** A measurement rule in YAML. Who holds it checks that no ratio divides by its own measurement. */
export const resourceRule = withRules(
  z.strictObject({
    metricType: shape.metricType,
    minimum: bound,
    maximum: bound,
    maximumAbsoluteDelta: deltaBound,
    maximumPercentageDelta: deltaBound,
    zeroExpectation: z.enum(['zero', 'nonzero']).optional(),
    ratio: ratio.optional(),
    missingPolicy: shape.missingPolicy,
    transform: shape.transform,
    unit: trimmedText(64, 'unit').optional(),
    ruleAction: ruleAction.optional(),
    rulePolicy: rulePolicy.optional(),
    disabledRules: z.array(z.enum(RULE_KINDS)).max(8).meta({ 'x-kubernetes-list-type': 'set' }).optional(),
    mode: shape.mode,
  }),
  BOUNDS_RULE,
  {
    rule: `!has(self.ruleAction) || self.ruleAction.mode != 'active' || ${RULE_KINDS.map(stands).join(' || ')}`,
    message: 'Set at least one rule that is not disabled, or ruleAction.mode to inactive.',
  },
  {
    rule: `!has(self.transform) || self.transform != 'log1p' || !${stands('zeroExpectation')} || ${others.map(stands).join(' || ')}`,
    message: 'Set transform to none: log1p does not apply to zeroExpectation alone.',
  },
);

export const resourceMeasurements = withRules(
  z.record(z.string(), resourceRule).meta({ maxProperties: MAX_MEASUREMENTS }),
  {
    rule: "self.all(key, key.matches(r'^[a-z][a-z0-9_]{0,63}$'))",
    message:
      'Name each measurement with a lower-case letter, then lower-case letters, digits or "_", at most 64 characters.',
  },
  {
    rule: 'self.all(key, !has(self[key].ratio) || self[key].ratio.denominator != key)',
    message: 'Name another measurement as the denominator: a ratio to itself is always 1.',
  },
);
