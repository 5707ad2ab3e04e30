// The condition `Ready` of a Rule with `rollout: Replay`, in words. Pure.
import type { RuleReplayStatus } from '../../../../contract/crd/rule-replay.ts';
import { MAX_REPLAY_DAYS } from '../../../../contract/resources/draft.ts';
import type { ConditionFacts } from '../../../../kube/conditions.ts';
import { formatCount, plural } from '../words.ts';

/** `waitsFor`: why the replay does not go on at the moment, a sentence. */
export function replayCondition(progress: RuleReplayStatus, waitsFor: string | undefined): ConditionFacts {
  if (progress.finishedAt === undefined) {
    const message = `${capitalized(progress.progress)} Monitors.${waitsFor === undefined ? '' : ` ${waitsFor}`}`;
    // Unknown: nothing is wrong, and tools that watch conditions go on waiting.
    return { type: 'Ready', status: 'Unknown', reason: 'Replaying', message };
  }
  const { replayed, omitted } = progress;
  if (replayed === 0 && omitted > 0) {
    const message = `No Monitor could be replayed.${omissionWords(progress)}`;
    return { type: 'Ready', status: 'False', reason: 'NotReplayed', message };
  }
  return { type: 'Ready', status: 'True', reason: 'Replayed', message: effectWords(progress) };
}

/** What would have happened, and which Monitors that says nothing about. */
function effectWords(progress: RuleReplayStatus): string {
  const { replayed, matched, until, total } = progress;
  const { observationCount, currentIncidents, proposedIncidents, added, removed, refusedCount } = total;
  const span = `the ${MAX_REPLAY_DAYS} days before ${until}`;
  const refused =
    refusedCount === 0 ? '' : ` The definition would have refused ${plural(refusedCount, 'beat')}.`;
  return (
    `Replayed ${formatCount(replayed)} of ${plural(matched, 'Monitor')}, ${plural(observationCount, 'observation')} of ${span}: ` +
    `${plural(proposedIncidents, 'incident')} in place of ${formatCount(currentIncidents)}, ` +
    `${formatCount(added)} added and ${formatCount(removed)} removed.${refused}${omissionWords(progress)}`
  );
}

function omissionWords({ omitted, omissions = [] }: RuleReplayStatus): string {
  const [first] = omissions;
  if (first === undefined) return '';
  const more = omissions.length > 1 ? ' The others: status.replay.omissions.' : '';
  return ` ${plural(omitted, 'Monitor')} left out: ${first.monitor}, ${first.message}${more}`;
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
