// What two replays of one history have opened differently. Pure.
import type { Incident } from '../incident.ts';

export interface ReplayDifference {
  /** Those of the second replay that the first one has not. */
  added: Incident[];
  /** Those of the first replay that the second one has not. */
  removed: Incident[];
  /** How many both have. */
  unchanged: number;
}

/** Two incidents are the same when measurement, rule and the observation that opened them are (docs/contract/rules.md). */
export function compareReplays(before: readonly Incident[], after: readonly Incident[]): ReplayDifference {
  const [known, wanted] = [new Set(before.map(nameOf)), new Set(after.map(nameOf))];
  const added = after.filter((incident) => !known.has(nameOf(incident)));
  const removed = before.filter((incident) => !wanted.has(nameOf(incident)));
  return { added, removed, unchanged: after.length - added.length };
}

function nameOf({ measurement, rule, openSequence }: Incident): string {
  return `${measurement} ${rule} ${openSequence}`;
}
