// When violations of a rule open an incident, and how grave it is (docs/contract/rules.md). Both shapes of `rulePolicy`
// become one: consecutive is a policy that opens nothing before its criterion is met.
import { SEVERITIES, type Severity } from '../incident.ts';
import type { MeasurementRule } from '../monitor.ts';

export interface Policy {
  /** From the first violation on. Undefined: nothing opens before the criterion is met. */
  before?: Severity;
  /** Once the criterion is met. Undefined: nothing more happens then. */
  met?: Severity;
  /** The criterion: violations in a row, or the time since the first of the row. One of the two is set. */
  observations?: number;
  elapsedMs?: number;
  /** Whether the met criterion raises an incident that is open: only that of a sustained policy does. */
  raises: boolean;
  /** Conforming observations in a row that end the incident. */
  recoversAfter: number;
}

/** The policy of a rule as it is stored; the default is one violation, `warning`. */
export function compilePolicy(policy: MeasurementRule['rulePolicy']): Policy {
  if (policy === undefined || !('sustainedCriterion' in policy)) {
    const { consecutiveObservations = 1, severity = 'warning' } = policy ?? {};
    return {
      met: severity,
      observations: consecutiveObservations,
      raises: false,
      recoversAfter: consecutiveObservations,
    };
  }
  const before = severityOf(policy.transientConsequence);
  const met = graver(before, severityOf(policy.sustainedConsequence));
  const criterion = policy.sustainedCriterion;
  if (criterion.kind === 'elapsed_time') {
    return { before, met, elapsedMs: criterion.seconds * 1000, raises: true, recoversAfter: 1 };
  }
  const { observations } = criterion;
  return { before, met, observations, raises: true, recoversAfter: observations };
}

/** `inRow`: violations in a row; `sinceMs`: the first of them. */
export function isMet(policy: Policy, inRow: number, sinceMs: number, nowMs: number): boolean {
  if (policy.elapsedMs !== undefined) return nowMs - sinceMs >= policy.elapsedMs;
  return inRow >= (policy.observations ?? 1);
}

/** Whether `to` is graver than `from`. */
export function isGraver(to: Severity | undefined, from: Severity | undefined): to is Severity {
  return rankOf(to) > rankOf(from);
}

function graver(one: Severity | undefined, other: Severity | undefined): Severity | undefined {
  return isGraver(other, one) ? other : one;
}

function rankOf(severity: Severity | undefined): number {
  return severity === undefined ? -1 : SEVERITIES.indexOf(severity);
}

function severityOf(consequence: 'none' | Severity): Severity | undefined {
  return consequence === 'none' ? undefined : consequence;
}
