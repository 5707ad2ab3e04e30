// When a monitor's next beat is due, and when a sweeper must wake the monitor again. Pure: time is an argument.
import { inWindow, type Maintained, outOfWindow, windowFrom } from './maintenance.ts';
import { AFTER_A_BEAT, type LiveState, type OpenRun, type Timing } from './monitor.ts';

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
  return due === undefined ? undefined : outOfWindow(due + timing.graceMs, timing);
}

/** A copy of `live` whose clock starts at `atMs`. Without an interval no deadline runs. */
export function startClock(timing: Timing, live: LiveState, atMs: number): LiveState {
  const deadlineMs = timing.lifecycle === 'active' ? deadlineAfter(timing, live, atMs) : undefined;
  return { ...stopClock(live), anchorMs: atMs, deadlineMs };
}

/** Kubernetes starts a Job by a clock of its own, which may be ahead. */
export const EARLY_START_MS = 30_000;

/** The moment from which a start counts that moves the clock: one that comes just before a cron time is that of the cron time. */
export function slotOfStart({ schedule, startsMove }: Timing, atMs: number): number {
  const dueMs = startsMove ? schedule?.nextAfter(atMs) : undefined;
  return dueMs !== undefined && dueMs - atMs <= EARLY_START_MS ? dueMs : atMs;
}

/** The moment from which an end counts: the run may have ended before the cron time for which it started. */
export function slotOfEnd({ anchorMs, startMovedMs }: LiveState, atMs: number): number {
  const isAhead = anchorMs !== undefined && anchorMs === startMovedMs && anchorMs - atMs <= EARLY_START_MS;
  return isAhead ? Math.max(anchorMs, atMs) : atMs;
}

/** A copy of `live` in which no deadline runs, and none rests. */
export function stopClock(live: LiveState): LiveState {
  return { ...live, deadlineMs: undefined, missedCount: 0, unmovedMs: undefined, restsSinceMs: undefined };
}

/** The deadline `deadlineMs` has passed while the organization is suspended: none runs before its return. */
export function beginRest(live: LiveState, deadlineMs: number): LiveState {
  return { ...stopClock(live), restsSinceMs: deadlineMs };
}

/** The organization is active again: the clock of a monitor that rests starts at `nowMs`. */
export function endRest(timing: Timing, live: LiveState, nowMs: number): LiveState {
  return live.restsSinceMs === undefined ? live : startClock(timing, live, nowMs);
}

/**
 * Applies a changed timing to a running clock: it counts from where it started, and ends at least one grace from now, so
 * that a shorter interval opens no incident about the past. `isMissed`: a missed deadline is open.
 */
export function refitClock(
  timing: Timing,
  live: LiveState,
  nowMs: number,
  isMissed = live.openIncidents > 0,
): LiveState {
  if (live.restsSinceMs !== undefined) return endRest(timing, live, nowMs);
  // The deadline was missed: none runs until the next beat.
  if (isMissed && live.deadlineMs === undefined) return live;
  if (timing.lifecycle !== 'active' || live.anchorMs === undefined) return live;
  const deadlineMs = deadlineAfter(timing, live, live.anchorMs);
  if (deadlineMs === undefined) return stopClock(live);
  const earliest = outOfWindow(nowMs + timing.graceMs, timing);
  return { ...live, deadlineMs: Math.max(deadlineMs, earliest), missedCount: 0, unmovedMs: undefined };
}

/** Applies a changed limit to open runs, likewise. */
export function refitRuns(timing: Timing, runs: readonly OpenRun[], nowMs: number): OpenRun[] {
  const earliestMs = nowMs + timing.graceMs;
  return limitRuns(runs, (run) => {
    const dueMs = runDue(timing, run);
    return { ...run, dueMs: dueMs === undefined ? undefined : Math.max(dueMs, earliestMs) };
  });
}

/**
 * Open runs when a window goes. One whose limit has passed in it is overdue at its end, and that is now: an outage up to now
 * may have swallowed the end of the run.
 */
export function releaseRuns(maintained: Maintained, runs: readonly OpenRun[], nowMs: number): OpenRun[] {
  return runs.map((run) => {
    if (run.overdue || run.dueMs === undefined || run.dueMs > nowMs) return run;
    return { ...run, dueMs: Math.min(nowMs, outOfWindow(run.dueMs, maintained)) };
  });
}

/** Gives open runs their full time again, from now on. */
export function restartRuns(timing: Timing, runs: readonly OpenRun[], nowMs: number): OpenRun[] {
  return limitRuns(runs, (run) => {
    const counted = { ...run, countedFromMs: nowMs };
    return { ...counted, dueMs: runDue(timing, counted) };
  });
}

/** A run whose end may be lost gets no limit. */
function limitRuns(runs: readonly OpenRun[], limit: (run: OpenRun) => OpenRun): OpenRun[] {
  return runs.map((run) => (run.mayHaveEnded ? run : limit(run)));
}

/** When a run becomes overdue, whatever the window is: that may be set and replaced while the run is open. */
export function runDue(
  { maxRuntimeMs }: Timing,
  { startedMs, countedFromMs = startedMs }: OpenRun,
): number | undefined {
  return addDefined(countedFromMs, maxRuntimeMs);
}

/**
 * The moment from which the monitor is late: past the interval, inside the grace. With a schedule half of the grace after
 * the cron time: a job that runs then is not late.
 */
export function lateFrom(timing: { graceMs: number; schedule?: object }, deadlineMs: number): number {
  return deadlineMs - (timing.schedule ? Math.floor(timing.graceMs / 2) : timing.graceMs);
}

/**
 * The next moment after `nowMs` at which a sweeper must wake the monitor: late mark, deadline, overdue run,
 * a rule that time makes graver, a held alert, start or end of a maintenance window. Undefined: nothing can happen without a beat or an
 * action.
 */
export function nextWake(timing: Timing, live: LiveState, nowMs: number): number | undefined {
  if (timing.lifecycle !== 'active') return undefined;
  const moments: number[] = [];
  if (live.deadlineMs !== undefined) {
    moments.push(live.deadlineMs);
    const lateMs = lateFrom(timing, live.deadlineMs);
    if (lateMs > nowMs) moments.push(lateMs);
  }
  const window = windowFrom(timing, nowMs);
  const isHeld = inWindow(window, nowMs);
  const afterWindow = (dueMs: number) =>
    outOfWindow(window && isHeld ? Math.max(dueMs, window.endsMs) : dueMs, timing);
  for (const { dueMs, overdue } of live.openRuns) {
    if (dueMs !== undefined && !overdue) moments.push(afterWindow(dueMs));
  }
  const { escalatesMs, holdMs } = live;
  if (holdMs !== undefined) moments.push(holdMs);
  if (escalatesMs !== undefined && escalatesMs !== AFTER_A_BEAT) moments.push(afterWindow(escalatesMs));
  if (window) moments.push(isHeld ? window.endsMs : window.startsMs);
  return moments.length === 0 ? undefined : Math.min(...moments);
}

/**
 * The wake after a beat that puts it off to `nextMs`. One that is stored and comes earlier stays, as long as most of the
 * time until then is left: the beat then changes no index. A monitor that is woken for nothing costs more than such a beat
 * saves. So later beats move the wake: a sender with a steady rhythm is never woken for nothing, and any other one once in
 * an interval at most (docs/adr/0002). The statement of plain beats does the same in SQL.
 */
export function putOffWake(
  storedMs: number | undefined,
  nextMs: number | undefined,
  nowMs: number,
): number | undefined {
  if (storedMs === undefined || nextMs === undefined || storedMs > nextMs) return nextMs;
  return (storedMs - nowMs) * 5 >= (nextMs - nowMs) * 3 ? storedMs : nextMs;
}

/**
 * A copy of `live` with its next wake, and where there are maintenance schedules with the window that runs or comes: each begin
 * and end of it is a wake.
 */
export function withWake(timing: Timing, live: LiveState, nowMs: number): LiveState {
  const window = timing.recurrence && windowFrom(timing, nowMs);
  const wakeMs = nextWake(timing, live, nowMs);
  return { ...live, wakeMs, recursFromMs: window?.startsMs, recursUntilMs: window?.endsMs };
}

/**
 * `withWake` for use after an action or a change of timing: a moment in the past becomes now, because most sweeps begin
 * only a second before the end of the last one.
 */
export function withWakeAfterChange(timing: Timing, live: LiveState, nowMs: number): LiveState {
  const woken = withWake(timing, live, nowMs);
  return woken.wakeMs === undefined ? woken : { ...woken, wakeMs: Math.max(woken.wakeMs, nowMs) };
}

function addDefined(a: number, b: number | undefined): number | undefined {
  return b === undefined ? undefined : a + b;
}
