// What violations in a row deserve by the policy of a rule, in its plainest form, from docs/contract/rules.md. It shares
// nothing with src/domain/rules but types.
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import type { RuleObservation } from '../../../src/domain/rules/state.ts';

const RANKS = ['none', 'info', 'warning', 'critical'];

export function isGraver(one: string, other: string): boolean {
  return RANKS.indexOf(one) > RANKS.indexOf(other);
}

/** "Consecutive: the n-th violation in a row opens an incident of that severity. Sustained: …" */
export function consequencesOf({ rulePolicy }: MeasurementRule) {
  if (!rulePolicy) return { before: 'none', after: 'warning', isSustained: false } as const;
  if (!('sustainedCriterion' in rulePolicy)) {
    return { before: 'none', after: rulePolicy.severity, isSustained: false } as const;
  }
  const { transientConsequence: before, sustainedConsequence } = rulePolicy;
  const after = isGraver(sustainedConsequence, before) ? sustainedConsequence : before;
  return { before, after, isSustained: true } as const;
}

export function meets({ rulePolicy }: MeasurementRule, row: RuleObservation[], atMs: number): boolean {
  if (!rulePolicy) return row.length >= 1;
  if (!('sustainedCriterion' in rulePolicy)) return row.length >= rulePolicy.consecutiveObservations;
  const criterion = rulePolicy.sustainedCriterion;
  if (criterion.kind === 'observations') return row.length >= criterion.observations;
  return atMs - (row[0]?.atMs ?? atMs) >= criterion.seconds * 1000;
}

export function neededOf({ rulePolicy }: MeasurementRule): number {
  if (!rulePolicy) return 1;
  if (!('sustainedCriterion' in rulePolicy)) return rulePolicy.consecutiveObservations;
  const criterion = rulePolicy.sustainedCriterion;
  return criterion.kind === 'observations' ? criterion.observations : 1;
}

/** How long after the first violation the time alone does something. Undefined: never. */
export function elapsedOf({ rulePolicy, ruleAction }: MeasurementRule): number | undefined {
  if (ruleAction?.mode === 'inactive' || !rulePolicy || !('sustainedCriterion' in rulePolicy))
    return undefined;
  const criterion = rulePolicy.sustainedCriterion;
  return criterion.kind === 'elapsed_time' ? criterion.seconds * 1000 : undefined;
}
