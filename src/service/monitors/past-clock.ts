// The clock of a monitor at a moment in the past, counted again from what is stored: where it last started, and what
// changed after that. The functions that changed it then change it here.
import { startClock, stopClock } from '../../domain/deadline.ts';
import type { ClockStart } from '../../domain/explain/situation.ts';
import { changeLifecycle } from '../../domain/lifecycle.ts';
import { type MaintenanceWindow, recursAfterExit } from '../../domain/maintenance.ts';
import {
  type LiveState,
  newLiveState,
  type Timing,
  type TimingState,
  toTiming,
} from '../../domain/monitor.ts';
import { ProblemError } from '../../domain/problem.ts';
import { deadlinesOf } from '../../domain/silence.ts';
import type { PastChange } from '../../store/monitors/monitor-changes.ts';
import { changes as changesOf, refit } from './monitor-configuration.ts';

/** The state of a monitor after a change. */
export interface PastState extends PastChange {
  timing: Timing;
  maintenance?: MaintenanceWindow;
}

export interface StartedClock {
  atMs: number;
  by: ClockStart;
}

/** The states after changes, oldest first. Who beats it is no change of the configuration: as it is now. */
export function statesAfter(
  changes: readonly PastChange[],
  minimumIntervalMs: number,
  beatenBy: string | undefined,
): PastState[] {
  let state: TimingState = { lifecycle: 'active', beatenBy };
  return changes.map((record) => {
    const { change, configuration, occurredMs } = record;
    if (change.kind === 'lifecycle') {
      const { to: lifecycle, action, maintenance } = change;
      const before = toTiming(configuration, state, minimumIntervalMs);
      const isExit = action === 'exit_maintenance';
      const recursSinceMs = isExit ? recursAfterExit(state, before, occurredMs) : state.recursSinceMs;
      state = { ...state, lifecycle, maintenance, recursSinceMs };
    }
    const timing = toTiming(configuration, state, minimumIntervalMs);
    return { ...record, timing, maintenance: state.maintenance };
  });
}

/** The newest change that started the clock; `hasClock`: one ran before the changes. */
export function findStart(states: readonly PastState[], hasClock: boolean): StartedClock | undefined {
  let start: StartedClock | undefined;
  for (const [index, { change, configuration, occurredMs: atMs }] of states.entries()) {
    if (index === 0 && !configuration.awaitFirstBeat) start = { atMs, by: 'creation' };
    if (change.kind !== 'lifecycle') continue;
    const { action } = change;
    const isEnd = action === 'exit_maintenance' && (hasClock || start !== undefined);
    if (action === 'resume' || action === 'restore' || isEnd) start = { atMs, by: action };
  }
  return start;
}

/**
 * The clock that started there, after the changes that came later. `missedMs`: since when a missed deadline is open; it
 * says nothing of a deadline that was missed again.
 */
export function replay(
  states: readonly PastState[],
  start: StartedClock,
  known: Partial<LiveState>,
  missedMs: number | undefined,
): LiveState {
  const first = states.findLast(({ occurredMs }) => occurredMs <= start.atMs) ?? states[0];
  if (!first) return { ...newLiveState(), ...known };
  let before = first;
  let live = startClock(first.timing, { ...newLiveState(), ...known }, start.atMs);
  for (const after of states) {
    if (after.occurredMs <= start.atMs) continue;
    const isOpen = missedMs !== undefined && missedMs <= after.occurredMs;
    const isMissed = isOpen && hasPassed(before.timing, live, after.occurredMs);
    live = step(before, after, isMissed ? { ...stopClock(live), openIncidents: 1 } : live, isMissed);
    before = after;
  }
  return live;
}

/** Whether the last deadline of a clock has passed, or it has none. */
export function hasPassed(timing: Timing, live: LiveState, atMs: number): boolean {
  const lastMs = deadlinesOf(timing, live, []).at(-1);
  return lastMs === undefined || lastMs <= atMs;
}

function step(before: PastState, after: PastState, live: LiveState, isMissed: boolean): LiveState {
  const { change, occurredMs: nowMs, maintenance: window } = after;
  if (change.kind === 'lifecycle') {
    try {
      return changeLifecycle(before.timing, live, change.action, { nowMs, window }).live;
    } catch (error) {
      // A record may lack what a version before knew nothing of, such as the schedule whose window was ended.
      if (error instanceof ProblemError && error.code === 'conflict') return live;
      throw error;
    }
  }
  const timing = { before: before.timing, after: after.timing };
  return refit(timing, changesOf(before, after), { live, isMissed, nowMs });
}
