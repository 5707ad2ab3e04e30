// Compares what Rules give to a monitor with its record. A Rule states the whole rule of a measurement: what it does not
// state goes back to its default. Pure.
import { isDeepStrictEqual } from 'node:util';
import {
  measurementRuleWithDefaults,
  mergeMeasurementRule,
} from '../../../../contract/resources/measurement-rule-patch.ts';
import type { Monitor } from '../../../../contract/resources/monitor.ts';
import type { GivenRule } from '../../rule/apply/given-rules.ts';
import { proposalOf } from '../../rule/definition.ts';
import type { MonitorPatch } from '../monitor-plan.ts';

type MeasurementPatch = NonNullable<NonNullable<MonitorPatch['measurements']>[string]>;

/** `same`: the monitor has the rule. `invalid`: no monitor can have it, a sentence. */
export type RulePlan =
  | { kind: 'same' }
  | { kind: 'patch'; patch: MeasurementPatch }
  | { kind: 'invalid'; message: string };

export function planRule({ rule, measurementKey }: GivenRule, record: Monitor): RulePlan {
  if (rule === undefined) return { kind: 'same' };
  const proposal = proposalOf(rule);
  if ('refused' in proposal) return { kind: 'invalid', message: proposal.refused };
  const merged = mergeMeasurementRule(measurementKey, undefined, proposal.definition);
  if ('faults' in merged) {
    const [fault] = merged.faults;
    return { kind: 'invalid', message: `The definition is not valid. ${fault?.message ?? ''}` };
  }
  const wanted: Record<string, unknown> = measurementRuleWithDefaults(merged.rule);
  if (!Object.hasOwn(record.measurements, measurementKey)) return { kind: 'patch', patch: wanted };
  const current: Record<string, unknown> = record.measurements[measurementKey] ?? {};
  const patch: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(wanted))
    if (!isDeepStrictEqual(current[field], value)) patch[field] = value;
  for (const field of Object.keys(current)) if (wanted[field] === undefined) patch[field] = null;
  return Object.keys(patch).length === 0 ? { kind: 'same' } : { kind: 'patch', patch };
}
