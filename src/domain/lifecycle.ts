// Lifecycle actions (docs/contract/monitors.md): from which state each is allowed, and what it does to the clock. Pure.
import { awaitBeat } from './beat.ts';
import {
  refitClock,
  releaseRuns,
  restartRuns,
  startClock,
  stopClock,
  withWakeAfterChange,
} from './deadline.ts';
import { hasOwnWindow, type MaintenanceWindow, outOfWindow, windowAt } from './maintenance.ts';
import type { Lifecycle, LiveState, Timing } from './monitor.ts';
import { ProblemError } from './problem.ts';
import { DAY_MS, KEPT_DAYS } from './retention.ts';

export const LIFECYCLE_ACTIONS = [
  'pause',
  'resume',
  'archive',
  'restore',
  'enter_maintenance',
  'exit_maintenance',
] as const;
export type LifecycleAction = (typeof LIFECYCLE_ACTIONS)[number];

/** How long an archived monitor can be restored; then the sweeper deletes it. */
export const RESTORABLE_MS = KEPT_DAYS.archivedMonitors * DAY_MS;

const FROM: Record<LifecycleAction, readonly Lifecycle[]> = {
  pause: ['active'],
  resume: ['paused'],
  archive: ['active', 'paused'],
  restore: ['archived'],
  enter_maintenance: ['active'],
  exit_maintenance: ['active'],
};

export interface LifecycleResult {
  timing: Timing;
  live: LiveState;
}

/**
 * Applies an action; `window` is set for `enter_maintenance`. Throws `conflict` where the action is not allowed.
 * The caller resolves the incidents of a monitor that it archives.
 */
export function changeLifecycle(
  timing: Timing,
  before: LiveState,
  action: LifecycleAction,
  moment: { nowMs: number; window?: MaintenanceWindow },
): LifecycleResult {
  const { nowMs } = moment;
  if (!FROM[action].includes(timing.lifecycle)) {
    throw new ProblemError('conflict', {
      detail: `The monitor is ${timing.lifecycle}: ${action} needs one that is ${FROM[action].join(' or ')}.`,
    });
  }
  if (action === 'exit_maintenance' && !hasOwnWindow(timing, nowMs) && !windowAt(timing, nowMs)) {
    throw new ProblemError('conflict', { detail: 'The monitor has no maintenance window to end.' });
  }
  const changed = apply(timing, before, action, moment);
  const live = withWakeAfterChange(changed.timing, { ...changed.live, gapBroken: true }, nowMs);
  return { timing: changed.timing, live };
}

function apply(
  timing: Timing,
  live: LiveState,
  action: LifecycleAction,
  moment: { nowMs: number; window?: MaintenanceWindow },
): LifecycleResult {
  const { nowMs } = moment;
  switch (action) {
    case 'pause':
      return { timing: { ...timing, lifecycle: 'paused', maintenance: undefined }, live: stopClock(live) };
    case 'archive': {
      const archived: Timing = { ...timing, lifecycle: 'archived', maintenance: undefined };
      // Beats are refused from now on, and leave no trace.
      return { timing: archived, live: { ...stopClock(awaitBeat(live)), openRuns: [] } };
    }
    case 'resume':
    case 'restore': {
      const active: Timing = { ...timing, lifecycle: 'active', maintenance: undefined };
      return { timing: active, live: restartClock(active, live, nowMs) };
    }
    case 'enter_maintenance': {
      const within: Timing = { ...timing, maintenance: moment.window };
      const released = { ...live, openRuns: releaseRuns(timing, live.openRuns, nowMs) };
      // A window that replaces another must not keep the deadline that the former one moved. A former one that has ended
      // may have moved it as well, if it ended in this silence.
      if (timing.maintenance && timing.maintenance.endsMs > (live.anchorMs ?? nowMs)) {
        return { timing: within, live: refitClock(within, released, nowMs) };
      }
      const { deadlineMs } = live;
      const moved = deadlineMs === undefined ? undefined : outOfWindow(deadlineMs, within);
      return { timing: within, live: { ...released, deadlineMs: moved } };
    }
    case 'exit_maintenance': {
      const { recurrence } = timing;
      const left = hasOwnWindow(timing, nowMs) ? recurrence : recurrence?.since(outOfWindow(nowMs, timing));
      const without: Timing = { ...timing, maintenance: undefined, recurrence: left };
      const clockRuns = live.deadlineMs !== undefined || live.anchorMs !== undefined;
      const released = { ...live, openRuns: releaseRuns(timing, live.openRuns, nowMs) };
      return { timing: without, live: clockRuns ? startClock(without, released, nowMs) : released };
    }
  }
}

/**
 * The live state of a monitor whose object was made again. The clock of an active one starts as after `restore`; one that
 * waits for its first beat goes on waiting, because nothing has been silent. Open incidents stay open.
 */
export function takeOver(timing: Timing, live: LiveState, nowMs: number): LiveState {
  const isRunning = live.deadlineMs !== undefined || live.anchorMs !== undefined;
  if (timing.lifecycle !== 'active' || !isRunning) return live;
  const restarted = { ...restartClock(timing, live, nowMs), gapBroken: true };
  return withWakeAfterChange(timing, restarted, nowMs);
}

/**
 * A full interval plus grace from now. A run continues through a pause: no clock ran meanwhile, so its time starts again as
 * well.
 */
function restartClock(timing: Timing, live: LiveState, nowMs: number): LiveState {
  return startClock(timing, { ...live, openRuns: restartRuns(timing, live.openRuns, nowMs) }, nowMs);
}
