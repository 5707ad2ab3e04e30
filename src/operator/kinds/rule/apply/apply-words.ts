// The conditions of a Rule with `rollout: Apply`, in words. Pure.
import type { ConditionFacts } from '../../../../kube/conditions.ts';
import type { RuleObject } from '../rule-object.ts';
import { formatCount, plural } from '../words.ts';
import type { ApplyProgress } from './apply-progress.ts';

/** `applied 3,120 of 10,000`. */
export function progressWords({ counts, matched }: ApplyProgress): string {
  return `applied ${formatCount(counts.applied)} of ${formatCount(matched)}`;
}

/** `Ready`: what needs a person comes first. */
export function readyOfApply({ spec }: RuleObject, progress: ApplyProgress): ConditionFacts {
  const { matched, counts, conflicted, refused } = progress;
  const { measurementKey, monitorRef } = spec;
  if (matched === 0 && monitorRef !== undefined) {
    const message = `There is no Monitor ${monitorRef.name} in this namespace: create it, or name another one.`;
    return { type: 'Ready', status: 'False', reason: 'MonitorNotFound', message };
  }
  if (matched === 0) {
    const message = 'The Rule matches no Monitor. Each that comes to match gets it.';
    return { type: 'Ready', status: 'True', reason: 'NoMonitors', message };
  }
  const done = `Applied to ${formatCount(counts.applied)} of ${plural(matched, 'Monitor')}.`;
  const own = `${plural(counts.overridden, 'Monitor')} ${counts.overridden === 1 ? 'states' : 'state'} ${measurementKey} in the spec, which wins.`;
  const words = counts.overridden === 0 ? done : `${done} ${own}`;
  if (refused !== undefined) {
    const message = `${plural(counts.refused, 'Monitor')} cannot have it, such as ${refused.name}: ${refused.message} ${words}`;
    return { type: 'Ready', status: 'False', reason: 'Refused', message };
  }
  if (conflicted !== undefined) {
    const message = `${conflictWords(measurementKey, progress)} ${words}`;
    return { type: 'Ready', status: 'False', reason: 'Conflict', message };
  }
  // Unknown: nothing is wrong, and tools that watch conditions go on waiting.
  if (counts.pending > 0) return { type: 'Ready', status: 'Unknown', reason: 'Applying', message: words };
  return { type: 'Ready', status: 'True', reason: 'Applied', message: words };
}

/** `Conflict`: another Rule is older. Undefined: none is. */
export function conflictOfApply({ spec }: RuleObject, progress: ApplyProgress): ConditionFacts | undefined {
  if (progress.conflicted === undefined) return undefined;
  const message = `${conflictWords(spec.measurementKey, progress)} Delete one of the two Rules, or let them match other Monitors.`;
  return { type: 'Conflict', status: 'True', reason: 'OlderRule', message };
}

function conflictWords(measurementKey: string, { counts, conflicted }: ApplyProgress): string {
  const verb = counts.conflicted === 1 ? 'has' : 'have';
  const example = conflicted && `such as ${conflicted.name} (${conflicted.by})`;
  return `${plural(counts.conflicted, 'Monitor')} ${verb} an older Rule for ${measurementKey}, ${example}.`;
}
