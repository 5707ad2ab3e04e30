// When a monitor's next beat is due, and when a sweeper must look at it again. Pure: the moment is an argument.
import type { LiveState, Outage, Timing, Window } from './monitor.ts';
import { inWindow } from './monitor.ts';

/** The interval that counts, or undefined: with a schedule, and while the cadence is being learned. */
export function intervalOf(timing: Timing, live: Pick<LiveState, 'cadenceMs'>): number | undefined {
  if (timing.schedule) return undefined;
  return timing.intervalMs ?? live.cadenceMs;
}

/**
 * The deadline of a clock that starts at `atMs` (docs/contract/deadlines.md): interval plus grace later, or grace after the
 * first cron time; moved to the end of a maintenance window that it falls into. Undefined while learning.
 */
export function deadlineAfter(timing: Timing, live: Pick<LiveState, 'cadenceMs'>, atMs: number) {
  const due = timing.schedule ? timing.schedule.nextAfter(atMs) : addDefined(atMs, intervalOf(timing, live));
  return due === undefined ? undefined : outOfWindow(due + timing.graceMs, timing.maintenance);
}

/** A deadline inside a maintenance window moves to the window's end. */
export function outOfWindow(deadlineMs: number, window: Window | undefined): number {
  return window && inWindow(window, deadlineMs) ? window.endsMs : deadlineMs;
}

/** Starts the clock at `atMs` on a copy of `live`; without an interval to count no deadline runs. */
export function startClock(timing: Timing, live: LiveState, atMs: number): LiveState {
  const deadlineMs = timing.lifecycle === 'active' ? deadlineAfter(timing, live, atMs) : undefined;
  return { ...live, anchorMs: atMs, deadlineMs, missedCount: 0, outageMs: 0 };
}

export function stopClock(live: LiveState): LiveState {
  return { ...live, deadlineMs: undefined, missedCount: 0, outageMs: 0 };
}

/**
 * After a change of timing a running clock counts by the new one from where it started, but never less than one
 * grace from now: a shorter interval must not open an incident about the past. `isMissed`: a missed deadline is open.
 */
export function refitClock(
  timing: Timing,
  live: LiveState,
  nowMs: number,
  isMissed = live.openIncidents > 0,
): LiveState {
  // Counted from the start of the run again: the outages since then move it again.
  const openRuns = live.openRuns.map((run) => ({
    ...run,
    dueMs: runDue(timing, run.startedMs),
    outageMs: undefined,
  }));
  const fitted = { ...live, openRuns };
  // Missed already: no deadline runs until the next beat.
  return isMissed && live.deadlineMs === undefined ? fitted : refitDeadline(timing, fitted, nowMs);
}

function refitDeadline(timing: Timing, live: LiveState, nowMs: number): LiveState {
  if (timing.lifecycle !== 'active' || live.anchorMs === undefined) return live;
  const deadlineMs = deadlineAfter(timing, live, live.anchorMs);
  if (deadlineMs === undefined) return stopClock(live);
  const earliest = outOfWindow(nowMs + timing.graceMs, timing.maintenance);
  return { ...live, deadlineMs: Math.max(deadlineMs, earliest), missedCount: 0, outageMs: 0 };
}

/**
 * A moment that fell into an own outage, or within one grace after it, moves by the outage's length, once for each
 * outage (docs/contract/deadlines.md). Outages oldest first; `appliedMs`: the end of the last one that moved it before;
 * `leastAfter`: the moment before which it must not be, for the end of an outage.
 */
export function shiftByOutages(
  timing: Timing,
  due: { dueMs: number; appliedMs: number },
  outages: readonly Outage[],
  leastAfter: (toMs: number) => number | undefined = () => undefined,
): { dueMs: number; appliedMs: number } {
  let { dueMs, appliedMs } = due;
  for (const { fromMs, toMs } of outages) {
    if (toMs <= appliedMs || dueMs <= fromMs || dueMs > toMs + timing.graceMs) continue;
    const moved = outOfWindow(dueMs + (toMs - fromMs), timing.maintenance);
    dueMs = Math.max(moved, leastAfter(toMs) ?? moved);
    appliedMs = toMs;
  }
  return { dueMs, appliedMs };
}

/**
 * The running deadline after the outages that it met. The outage may have swallowed the beat that was due in it, and
 * the sender's next one comes up to an interval after its end: the clock counts from there at least. Never false, and
 * what is dead is found within interval plus grace. Returns the same object when nothing moves.
 */
export function shiftClock(timing: Timing, live: LiveState, outages: readonly Outage[]): LiveState {
  if (live.deadlineMs === undefined) return live;
  const due = { dueMs: live.deadlineMs, appliedMs: live.outageMs };
  const leastAfter = (toMs: number) => deadlineAfter(timing, live, toMs);
  const { dueMs, appliedMs } = shiftByOutages(timing, due, outages, leastAfter);
  return appliedMs === live.outageMs ? live : { ...live, deadlineMs: dueMs, outageMs: appliedMs };
}

/** When a run that began at `startedMs` becomes overdue. */
export function runDue(timing: Timing, startedMs: number): number | undefined {
  return timing.maxRuntimeMs === undefined
    ? undefined
    : outOfWindow(startedMs + timing.maxRuntimeMs, timing.maintenance);
}

/** Past the interval, inside the grace: from here on the monitor is late. */
export function lateFrom(timing: Pick<Timing, 'graceMs'>, deadlineMs: number): number {
  return deadlineMs - timing.graceMs;
}

/**
 * The next moment after `nowMs` at which a sweeper must look: late mark, deadline, overdue run, either end of a
 * maintenance window. Undefined: nothing can happen without a beat or an action.
 */
export function nextWake(timing: Timing, live: LiveState, nowMs: number): number | undefined {
  if (timing.lifecycle !== 'active') return undefined;
  const moments: number[] = [];
  if (live.deadlineMs !== undefined) {
    moments.push(live.deadlineMs);
    const lateMs = lateFrom(timing, live.deadlineMs);
    if (lateMs > nowMs) moments.push(lateMs);
  }
  const window = timing.maintenance;
  for (const { dueMs, overdue } of live.openRuns) {
    if (dueMs === undefined || overdue) continue;
    moments.push(window && inWindow(window, nowMs) ? Math.max(dueMs, window.endsMs) : dueMs);
  }
  if (window && window.startsMs > nowMs) moments.push(window.startsMs);
  if (window && window.endsMs > nowMs) moments.push(window.endsMs);
  return moments.length === 0 ? undefined : Math.min(...moments);
}

/**
 * As `nextWake`, after an action or a change of timing: what was due long ago by it is due now. Most sweeps begin only
 * a second behind where the last one ended.
 */
export function nextWakeAfterChange(timing: Timing, live: LiveState, nowMs: number): number | undefined {
  const wakeMs = nextWake(timing, live, nowMs);
  return wakeMs === undefined ? undefined : Math.max(wakeMs, nowMs);
}

function addDefined(a: number, b: number | undefined): number | undefined {
  return b === undefined ? undefined : a + b;
}
