// The kinds of rules of a measurement, in the order in which they are shown, judged and named.

export const RULE_KINDS = [
  'minimum',
  'maximum',
  'maximumAbsoluteDelta',
  'maximumPercentageDelta',
  'zeroExpectation',
  'ratio',
] as const;
export type RuleKind = (typeof RULE_KINDS)[number];
