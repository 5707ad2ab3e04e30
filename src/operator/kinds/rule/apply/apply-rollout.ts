// `rollout: Apply`: the Monitors get the rule by their own passes. A pass over the Rule says how far they are, from the
// caches alone.
import { findCondition } from '../../../../kube/conditions.ts';
import type { ObjectCache } from '../../../known/object-cache.ts';
import type { OperatorContext } from '../../../operator-context.ts';
import { otherReleaseOf } from '../../../pass/release.ts';
import type { MonitorObject } from '../../monitor/monitor-object.ts';
import { proposalOf } from '../definition.ts';
import { type Rollout, type RuleEvent, type RuleFindings, refusalOf } from '../rollout.ts';
import { objectsNear, type RuleObject } from '../rule-object.ts';
import { formatCount } from '../words.ts';
import { applyProgressOf } from './apply-progress.ts';
import { conflictOfApply, progressWords, readyOfApply } from './apply-words.ts';

export interface ApplySources {
  /** With the index `measurement`. */
  rules: ObjectCache<RuleObject>;
  monitors: ObjectCache<MonitorObject>;
}

export class ApplyRollout implements Rollout {
  readonly #context: Pick<OperatorContext, 'settings'>;
  readonly #sources: ApplySources;

  constructor(context: Pick<OperatorContext, 'settings'>, sources: ApplySources) {
    this.#context = context;
    this.#sources = sources;
  }

  async run(rule: RuleObject): Promise<RuleFindings> {
    const proposal = proposalOf(rule);
    if ('refused' in proposal)
      return refusalOf(rule, proposal.refused, { monitors: undefined, display: undefined });
    const { namespace = '' } = rule.metadata;
    const { release } = this.#context.settings;
    const near = objectsNear(this.#sources.monitors, rule);
    const monitors = near.filter((monitor) => otherReleaseOf(monitor, release) === undefined);
    const { measurementKey } = rule.spec;
    const rules = this.#sources.rules.listBy('measurement', `${namespace}/${measurementKey}`);
    const progress = applyProgressOf(rule, { monitors, rules });
    const ready = readyOfApply(rule, progress);
    const conflict = conflictOfApply(rule, progress);
    const { matched, counts } = progress;
    const { applied } = counts;
    const display =
      applied === matched ? formatCount(matched) : `${formatCount(applied)}/${formatCount(matched)}`;
    return {
      fields: {
        monitors: { progress: progressWords(progress), matched, ...counts },
        display: { monitors: display },
      },
      conditions: conflict === undefined ? [ready] : [ready, conflict],
      removed: conflict === undefined ? ['Conflict'] : [],
      events: eventsOf(rule, ready),
    };
  }
}

/** An Event for each new end of an application, and not for how far it is. */
function eventsOf({ status, metadata }: RuleObject, ready: { reason: string; message: string }): RuleEvent[] {
  const { reason, message } = ready;
  if (reason !== 'Applied' && reason !== 'Conflict' && reason !== 'Refused') return [];
  const before = findCondition(status?.conditions, 'Ready');
  const isNews = before?.reason !== reason || before.observedGeneration !== metadata.generation;
  return isNews ? [{ reason, note: message }] : [];
}
