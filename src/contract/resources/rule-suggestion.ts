// A rule that a monitor's history suggests (docs/contract/rules.md), with what it makes of that history.
import { z } from 'zod';
import { TAIL_SHARE } from '../../domain/rules/suggest.ts';
import { integer, MAX_SAFE, measurementKey } from '../fields/field.ts';
import { replayedRule, replayedWindow } from './draft.ts';
import { measurementRuleRecord, measurementRuleShape } from './measurement-rule.ts';

export const suggestRuleBody = z.strictObject({
  measurementKey,
  metricType: measurementRuleShape.metricType.describe(
    "What the measurement is. Default: what the monitor's rule says, else `gauge`.",
  ),
});

const value = z.number();

export const ruleSuggestion = z.object({
  measurementKey,
  definition: measurementRuleRecord.describe(
    'The suggested rule, whole: a draft takes it as the definition of its proposal.',
  ),
  window: replayedWindow.describe('The newest observations, and the time that they span.'),
  values: z
    .object({
      count: integer(0, MAX_SAFE).describe(
        'How many values the window has. Of a counter they are increases.',
      ),
      smallest: value.describe('The smallest value.'),
      low: value.describe('The 1st percentile, by nearest rank.'),
      median: value.describe('The 50th percentile.'),
      high: value.describe('The 99th percentile.'),
      largest: value.describe('The largest value.'),
    })
    .describe('The values that the bounds come from.'),
  proposed: replayedRule.describe('What the suggested rule makes of the window.'),
  flaggedShare: z
    .number()
    .min(0)
    .max(2 * TAIL_SHARE)
    .describe('The `flaggedCount` of `proposed`, as a share of the values.'),
});
export type RuleSuggestionRecord = z.output<typeof ruleSuggestion>;
