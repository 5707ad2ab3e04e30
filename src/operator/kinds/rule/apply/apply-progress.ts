// How far a Rule with `rollout: Apply` has come: what has become of each Monitor that it matches. Pure.
import type { MonitorObject } from '../../monitor/monitor-object.ts';
import { matches } from '../matching.ts';
import type { RuleObject } from '../rule-object.ts';
import { unsyncedFault } from '../unsynced.ts';
import { appliedBy, compareAge, isApplied, isGiving, isSameRule, statesItself } from './given-rules.ts';

/** `overridden`: its own spec states the measurement. `conflicted`: an older Rule gives it the measurement. */
export type MonitorOutcome =
  | { kind: 'applied' | 'pending' | 'overridden' }
  | { kind: 'conflicted'; by: string }
  | { kind: 'refused'; message: string };

/** One Monitor of a kind, the first by name, as an example in a sentence. */
type Example<Kind extends MonitorOutcome['kind']> = Extract<MonitorOutcome, { kind: Kind }> & {
  name: string;
};

export interface ApplyProgress {
  matched: number;
  counts: Readonly<Record<MonitorOutcome['kind'], number>>;
  conflicted: Example<'conflicted'> | undefined;
  refused: Example<'refused'> | undefined;
}

/** `monitors`: those that the Rule may be about. `rules`: those for its measurement. Of each those that no other release manages. */
export function applyProgressOf(
  rule: RuleObject,
  { monitors, rules }: { monitors: readonly MonitorObject[]; rules: readonly RuleObject[] },
): ApplyProgress {
  const given = appliedBy(rule);
  const older = rules.filter((other) => isOlderRival(other, rule)).toSorted(compareAge);
  const outcomeOf = (monitor: MonitorObject): MonitorOutcome => {
    if (statesItself(monitor, given.measurementKey)) return { kind: 'overridden' };
    const rival = older.find((other) => matches(other, monitor));
    if (rival !== undefined) return { kind: 'conflicted', by: rival.metadata.name };
    const refusal = monitor.status?.refusedRules?.find((refused) => isSameRule(refused, given));
    if (refusal === undefined && isApplied(monitor, given)) return { kind: 'applied' };
    const message = refusal?.message ?? unsyncedFault(monitor);
    return message === undefined ? { kind: 'pending' } : { kind: 'refused', message };
  };
  const counts = { applied: 0, pending: 0, overridden: 0, conflicted: 0, refused: 0 };
  let progress: ApplyProgress = { matched: 0, counts, conflicted: undefined, refused: undefined };
  for (const monitor of monitors) {
    if (!matches(rule, monitor)) continue;
    const outcome = outcomeOf(monitor);
    counts[outcome.kind] += 1;
    progress = { ...progress, matched: progress.matched + 1 };
    const { name } = monitor.metadata;
    if (outcome.kind === 'conflicted')
      progress.conflicted = firstOf(progress.conflicted, { ...outcome, name });
    if (outcome.kind === 'refused') progress.refused = firstOf(progress.refused, { ...outcome, name });
  }
  return progress;
}

/** The same for the same Monitors, in whatever order they come. */
function firstOf<E extends { name: string }>(one: E | undefined, other: E): E {
  return one === undefined || other.name < one.name ? other : one;
}

function isOlderRival(other: RuleObject, rule: RuleObject): boolean {
  if (other.metadata.uid === rule.metadata.uid || !isGiving(other)) return false;
  return other.spec.measurementKey === rule.spec.measurementKey && compareAge(other, rule) < 0;
}
