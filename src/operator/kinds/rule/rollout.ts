// What a pass over a Rule finds out, by the rollout that its spec states.
import { type ConditionFacts, findCondition } from '../../../kube/conditions.ts';
import type { Enqueue } from '../../pass/kind.ts';
import { faultConditions } from '../../pass/status.ts';
import type { RuleObject, RuleStatusFields } from './rule-object.ts';

/** The reasons of the Events of Rules, beside those of every kind. */
export const RULE_EVENTS = { Applied: 'Normal', Replayed: 'Normal' } as const;

export interface RuleEvent {
  reason: keyof typeof RULE_EVENTS | 'Conflict' | 'Refused';
  /** A sentence without secrets. */
  note: string;
}

export interface RuleFindings {
  /** These fields of the status are replaced, and the others stay. */
  fields: Omit<RuleStatusFields, 'conditions' | 'observedGeneration'>;
  /** `Ready` is among them. */
  conditions: readonly ConditionFacts[];
  /** Types of conditions to remove. */
  removed?: readonly string[];
  /** Recorded once the status that these findings change is written. */
  events?: readonly RuleEvent[];
  /** When the next pass is due without another change; undefined: at the usual resync. */
  dueInMs?: number;
}

/** One of the ways in which a Rule takes effect. */
export interface Rollout {
  /** A bounded part of the work. Level-based: any part may be done again. Throws ApiProblem and KubeError. */
  run(rule: RuleObject, signal: AbortSignal): Promise<RuleFindings>;
  /** Called once. Subscribes to what else concerns its Rules, and enqueues them. */
  watch?(enqueue: Enqueue<RuleObject>): void;
  /** Ends what it does beside the passes. */
  stop?(): Promise<unknown>;
}

/** The API would refuse the Rule on every monitor. `message`: why, a sentence. */
export function refusalOf(
  { status }: RuleObject,
  message: string,
  fields: RuleFindings['fields'],
): RuleFindings {
  const fault = { reason: 'Refused', message };
  const isNews = findCondition(status?.conditions, 'Ready')?.message !== message;
  const events: RuleEvent[] = isNews ? [{ reason: 'Refused', note: message }] : [];
  return { fields, conditions: faultConditions(fault), removed: ['Conflict'], events };
}
