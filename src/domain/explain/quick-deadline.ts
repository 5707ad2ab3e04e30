// The deadlines of a sentence for thousands of monitors at once. Pure. A schedule is not asked when it is due: that takes
// longer than all else.
import { intervalOf } from '../deadline.ts';
import { crossesWindow } from '../maintenance.ts';
import type { Deadlines } from './because.ts';
import type { DeadlineWords } from './deadline-words.ts';
import { explainDeadline, explainMissed } from './explain-deadline.ts';
import type { State } from './situation.ts';

/** What `explainDeadline` and `explainMissed` say, as far as a sentence has it and no schedule would have to be asked. */
export function quickDeadlines(state: State): Deadlines {
  const { timing, live, restsSinceMs } = state;
  if (timing.lifecycle !== 'active' || live.deadlineMs === undefined || restsSinceMs !== undefined) {
    return { running: { parts: [] }, missed: timing.schedule ? undefined : explainMissed(state) };
  }
  if (mayBeMoved(state)) return { running: timing.schedule ? undefined : explainDeadline(state) };
  return { running: plainDeadline(state, live.deadlineMs) };
}

/** Start, interval or time of the schedule, and grace. */
function plainDeadline({ timing, live }: State, atMs: number): DeadlineWords {
  const { graceMs, schedule, intervalMs } = timing;
  const start = { kind: 'clock_start', atMs: live.anchorMs } as const;
  const grace = { kind: 'grace', ms: graceMs } as const;
  if (schedule) return { atMs, parts: [start, { kind: 'cron', atMs: atMs - graceMs }, grace] };
  const interval = {
    kind: intervalMs === undefined ? 'learned' : 'interval',
    ms: intervalOf(timing, live),
  } as const;
  return { atMs, parts: [start, interval, grace] };
}

/** Whether anything but a beat or a change may have set the deadline since the clock started. */
function mayBeMoved({ timing, live, outages }: State): boolean {
  const { deadlineMs = 0, anchorMs = 0, excusedMs = 0, missedCount, unmovedMs } = live;
  return (
    missedCount > 0 ||
    unmovedMs !== undefined ||
    excusedMs > anchorMs ||
    (outages.at(-1)?.toMs ?? 0) > anchorMs ||
    // A window that ends there has moved it there.
    crossesWindow(timing, deadlineMs - 1, deadlineMs)
  );
}
