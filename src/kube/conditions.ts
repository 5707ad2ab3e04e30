// Status conditions by the Kubernetes API conventions. Pure: time is passed in.
import { formatSeconds } from './kube-object.ts';

export interface KubeCondition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason: string;
  message: string;
  observedGeneration?: number;
  lastTransitionTime: string;
}

/** What a controller found; `setCondition` adds generation and transition time. */
export type ConditionFacts = Pick<KubeCondition, 'type' | 'status' | 'reason' | 'message'>;

export interface ConditionMoment {
  /** `metadata.generation` of the object that the controller observed. */
  generation: number | undefined;
  nowMs: number;
}

/** The `lastTransitionTime` of a condition that is the schema's default: nobody has written it. */
export const NEVER = '1970-01-01T00:00:00Z';

// Limits of metav1.Condition: the server refuses the whole status if one text is longer.
const maxMessageLength = 32_768;
const maxReasonLength = 1024;

/**
 * Returns a copy of `conditions` with these facts, in the order of first appearance.
 * `lastTransitionTime` changes only when `status` changes or when the condition was a default of the schema;
 * `observedGeneration` is set at each call.
 */
export function setCondition(
  conditions: readonly KubeCondition[] | undefined,
  facts: ConditionFacts,
  moment: ConditionMoment,
): KubeCondition[] {
  const previous = findCondition(conditions, facts.type);
  const isSteady = previous?.status === facts.status && previous.lastTransitionTime !== NEVER;
  const next: KubeCondition = {
    type: facts.type,
    status: facts.status,
    reason: facts.reason.slice(0, maxReasonLength),
    message: facts.message.slice(0, maxMessageLength),
    ...(moment.generation === undefined ? {} : { observedGeneration: moment.generation }),
    lastTransitionTime: isSteady ? previous.lastTransitionTime : formatSeconds(moment.nowMs),
  };
  if (previous === undefined) return [...(conditions ?? []), next];
  return (conditions ?? []).map((condition) => (condition.type === facts.type ? next : condition));
}

/** Returns a copy without the condition of this type. */
export function removeCondition(
  conditions: readonly KubeCondition[] | undefined,
  type: string,
): KubeCondition[] {
  return (conditions ?? []).filter((condition) => condition.type !== type);
}

export function findCondition(
  conditions: readonly KubeCondition[] | undefined,
  type: string,
): KubeCondition | undefined {
  return conditions?.find((condition) => condition.type === type);
}
