// What the Rules of its namespace give to a Monitor: of each measurement one rule (docs/contract/kubernetes.md, "Apply").
// Pure.
import { MANAGED_BY } from '../../../../contract/crd/custom-resources.ts';
import type { MonitorObject, MonitorStatusFields } from '../../monitor/monitor-object.ts';
import { definitionHashOf } from '../definition.ts';
import { matches } from '../matching.ts';
import type { RuleObject } from '../rule-object.ts';

export type AppliedRule = NonNullable<MonitorStatusFields['appliedRules']>[number];

/** A rule of one measurement that a Monitor gets from a Rule. */
export interface GivenRule extends Required<AppliedRule> {
  /** Undefined: what the Rule has applied stays as it is. */
  rule: RuleObject | undefined;
}

/**
 * By measurement, in the order of their names. A measurement that the Monitor states itself is not among them: its spec wins.
 *
 * Of several Rules the oldest wins. What a Rule has applied stays while its rollout is `Replay`, which changes nothing; while
 * no release has claimed it yet; and while it is one of `unseen`, which the cluster has and the cache does not.
 *
 * `rules`: those that may be about the Monitor and that no other release manages, in any order.
 */
export function givenRules(
  monitor: MonitorObject,
  rules: readonly RuleObject[],
  unseen: readonly AppliedRule[] = [],
): GivenRule[] {
  const given = new Map<string, GivenRule>();
  const about = rules.filter((rule) => matches(rule, monitor));
  for (const rule of about.filter(isGiving).toSorted(compareAge)) {
    const { measurementKey } = rule.spec;
    if (!given.has(measurementKey) && !statesItself(monitor, measurementKey))
      given.set(measurementKey, givenBy(rule));
  }
  for (const applied of monitor.status?.appliedRules ?? []) {
    const { measurementKey } = applied;
    if (given.has(measurementKey) || statesItself(monitor, measurementKey)) continue;
    const isKept = unseen.includes(applied) || about.some((rule) => isOf(rule, applied));
    if (isKept) given.set(measurementKey, { uid: '', definitionHash: '', ...applied, rule: undefined });
  }
  return [...given.values()].toSorted((a, b) => (a.measurementKey < b.measurementKey ? -1 : 1));
}

/** True if it gives its measurement to Monitors. Of two releases that see a new Rule only the one that has claimed it does. */
export function isGiving({ metadata, spec }: RuleObject): boolean {
  return spec.rollout === 'Apply' && Boolean(metadata.annotations?.[MANAGED_BY]);
}

/** The oldest first, then by UID. */
export function compareAge(a: RuleObject, b: RuleObject): number {
  return ageOf(a) < ageOf(b) ? -1 : 1;
}

/** True if the Monitor has this rule, as far as its status says. */
export function isApplied({ status }: MonitorObject, given: Required<AppliedRule>): boolean {
  return status?.appliedRules?.some((applied) => isSameRule(applied, given)) ?? false;
}

/** The same definition of the same Rule for the same measurement. */
export function isSameRule(one: AppliedRule, other: AppliedRule): boolean {
  return (
    one.uid === other.uid &&
    one.measurementKey === other.measurementKey &&
    one.definitionHash === other.definitionHash
  );
}

/** True if the spec of the Monitor states the measurement. */
export function statesItself({ spec }: MonitorObject, measurementKey: string): boolean {
  return Object.hasOwn(spec.measurements ?? {}, measurementKey);
}

/** As `status.appliedRules` has it once it is applied. */
export function appliedBy(rule: RuleObject): Required<AppliedRule> {
  const { name, uid = '' } = rule.metadata;
  const { measurementKey } = rule.spec;
  return { name, uid, measurementKey, definitionHash: definitionHashOf(rule) };
}

function givenBy(rule: RuleObject): GivenRule {
  return { ...appliedBy(rule), rule };
}

function isOf({ metadata, spec }: RuleObject, { uid, measurementKey }: AppliedRule): boolean {
  return metadata.uid === uid && spec.measurementKey === measurementKey;
}

function ageOf({ metadata: { creationTimestamp = '', uid = '' } }: RuleObject): string {
  return `${creationTimestamp}/${uid}`;
}
