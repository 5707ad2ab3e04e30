// Which Monitors a Rule is about. Pure.
import { MANAGED_BY } from '../../../contract/crd/custom-resources.ts';
import type { MonitorObject } from '../monitor/monitor-object.ts';
import { selects } from './label-selector.ts';
import type { RuleObject } from './rule-object.ts';

/** True if the Rule is about the Monitor. What is being deleted is about nothing, and nothing is about it. */
export function matches(rule: RuleObject, monitor: MonitorObject): boolean {
  return !isLeaving(rule) && !isLeaving(monitor) && names(rule, monitor);
}

/** Like `matches`, also of what is being deleted. */
export function names({ metadata, spec }: RuleObject, monitor: MonitorObject): boolean {
  if (metadata.namespace !== monitor.metadata.namespace) return false;
  if (spec.monitorRef !== undefined) return spec.monitorRef.name === monitor.metadata.name;
  return spec.selector !== undefined && selects(spec.selector, monitor.metadata.labels);
}

/** True if Monitors may get another rule after the change: not by a change of its status alone. */
export function changesGivenRules(before: RuleObject, after: RuleObject): boolean {
  const [a, b] = [before.metadata, after.metadata];
  return (
    a.generation !== b.generation ||
    a.deletionTimestamp !== b.deletionTimestamp ||
    a.annotations?.[MANAGED_BY] !== b.annotations?.[MANAGED_BY]
  );
}

const isLeaving = ({ metadata }: RuleObject | MonitorObject) => metadata.deletionTimestamp !== undefined;
