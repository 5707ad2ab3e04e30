// Why no deadline runs. Pure.
import type { DeadlinePart, State } from './situation.ts';

/** `at` writes a time. */
export function explainStop(
  { timing, live, action, incidents, isCadenceLost, restsSinceMs }: State,
  at: (ms: number) => string,
): DeadlinePart {
  const waiting = (note: string): DeadlinePart => ({ kind: 'waiting', note });
  if (timing.lifecycle !== 'active') {
    const since = action && ` since ${at(action.atMs)}`;
    return {
      kind: 'paused',
      atMs: action?.atMs,
      note: `The monitor is ${timing.lifecycle}${since ?? ''}: no deadline runs.`,
    };
  }
  if (incidents.some(({ kind, state }) => kind === 'missed_deadline' && state === 'open')) {
    return waiting('The deadline was missed: none runs until the next beat.');
  }
  if (isCadenceLost) {
    return {
      kind: 'learned',
      note: 'The cadence that was learned then is not kept, so the deadline is not known.',
    };
  }
  if (restsSinceMs !== undefined) {
    const passed = at(restsSinceMs);
    return waiting(
      `A deadline passed at ${passed}, while the organization was suspended: none runs before its return.`,
    );
  }
  if (live.anchorMs === undefined) return waiting('No deadline runs before the first beat.');
  if (timing.schedule) return waiting('The schedule has no further time.');
  const { length } = live.gaps;
  return waiting(`The cadence is being learned from ${length} gaps so far: no deadline runs until then.`);
}
