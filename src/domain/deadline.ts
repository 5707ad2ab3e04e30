// When a monitor's next beat is due, and when a sweeper must wake the monitor again. Pure: time is an argument.
import type { LiveState, Outage, Timing, Window } from './monitor.ts';
import { inWindow } from './monitor.ts';

/** The interval in force. Undefined with a schedule, and while the cadence is being learned. */
export function intervalOf(timing: Timing, live: Pick<LiveState, 'cadenceMs'>): number | undefined {
  if (timing.schedule) return undefined;
  return timing.intervalMs ?? live.cadenceMs;
}

/**
 * The deadline of a clock that starts at `atMs` (docs/contract/deadlines.md): interval plus grace later, or grace after
 * the first cron time. A deadline inside a maintenance window moves to the window's end. Undefined while learning.
 */
export function deadlineAfter(timing: Timing, live: Pick<LiveState, 'cadenceMs'>, atMs: number) {
  const due = timing.schedule ? timing.schedule.nextAfter(atMs) : addDefined(atMs, intervalOf(timing, live));
  return due === undefined ? undefined : outOfWindow(due + timing.graceMs, timing.maintenance);
}

/** A deadline inside a maintenance window moves to the window's end. */
export function outOfWindow(deadlineMs: number, window: Window | undefined): number {
  return window && inWindow(window, deadlineMs) ? window.endsMs : deadlineMs;
}

/** A copy of `live` whose clock starts at `atMs`. Without an interval no deadline runs. */
export function startClock(timing: Timing, live: LiveState, atMs: number): LiveState {
  const deadlineMs = timing.lifecycle === 'active' ? deadlineAfter(timing, live, atMs) : undefined;
  return { ...live, anchorMs: atMs, deadlineMs, missedCount: 0, outageMs: 0 };
}

export function stopClock(live: LiveState): LiveState {
  return { ...live, deadlineMs: undefined, missedCount: 0, outageMs: 0 };
}

/**
 * Applies a changed timing to a running clock: it counts from where it started, and ends at least one grace from now,
 * so that a shorter interval opens no incident about the past. `isMissed`: a missed deadline is open.
 */
export function refitClock(
  timing: Timing,
  live: LiveState,
  nowMs: number,
  isMissed = live.openIncidents > 0,
): LiveState {
  // The due time counts from the start of the run again, so outages since then move it again.
  const openRuns = live.openRuns.map((run) => ({
    ...run,
    dueMs: runDue(timing, run.startedMs),
    outageMs: undefined,
  }));
  const fitted = { ...live, openRuns };
  // The deadline was missed: none runs until the next beat.
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
 * Moves a moment that fell into an outage of the service, or within one grace after it, by the outage's length, once
 * per outage (docs/contract/deadlines.md). `outages` are oldest first. `appliedMs`: the end of the last outage that has
 * moved it. `leastAfter`: the earliest allowed moment, given the end of an outage.
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
 * Moves the running deadline by the outages it met. An outage may have swallowed the beat that was due in it, and the
 * sender's next beat comes up to an interval after the outage's end: the clock counts at least from that end. So no
 * living monitor alerts, and a dead one is found within interval plus grace. Returns the same object if nothing moves.
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

/** The moment from which the monitor is late: past the interval, inside the grace. */
export function lateFrom(timing: Pick<Timing, 'graceMs'>, deadlineMs: number): number {
  return deadlineMs - timing.graceMs;
}

/**
 * The next moment after `nowMs` at which a sweeper must wake the monitor: late mark, deadline, overdue run, start or
 * end of a maintenance window. Undefined: nothing can happen without a beat or an action.
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
 * `nextWake` for use after an action or a change of timing: a moment in the past becomes now, because most sweeps begin
 * only a second before the end of the last one.
 */
export function nextWakeAfterChange(timing: Timing, live: LiveState, nowMs: number): number | undefined {
  const wakeMs = nextWake(timing, live, nowMs);
  return wakeMs === undefined ? undefined : Math.max(wakeMs, nowMs);
}

function addDefined(a: number, b: number | undefined): number | undefined {
  return b === undefined ? undefined : a + b;
}
