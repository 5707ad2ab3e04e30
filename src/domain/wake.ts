// What the passing of time does to a monitor: missed deadline, overdue run, late mark, end of a window. Pure; the
// sweeper calls it for each row whose wake_ms has passed, under the row's lock.
import { countOpen } from './beat.ts';
import { intervalOf, nextWake, outOfWindow, shiftByOutages, shiftClock, stopClock } from './deadline.ts';
import { newId } from './id.ts';
import type { Incident, Opening, TimelineEntry, Transition } from './incident.ts';
import { openIncident, violateIncident } from './incident.ts';
import type { LiveState, OpenRun, Outage, Timing } from './monitor.ts';
import { inWindow } from './monitor.ts';

export interface Moment {
  /** The database's clock. */
  nowMs: number;
  /** The last moment at which some api could accept beats: no deadline after it counts as missed. */
  horizonMs: number;
  /** Outages of the service that may still matter, oldest first. */
  outages: readonly Outage[];
}

export interface WakeResult {
  live: LiveState;
  transitions: Transition[];
}

/** Applies the time that has passed. `incidents`: those of the monitor that have not ended. */
export function wakeMonitor(
  timing: Timing,
  live: LiveState,
  incidents: readonly Incident[],
  moment: Moment,
): WakeResult {
  if (timing.lifecycle !== 'active') {
    return { live: { ...live, wakeMs: undefined }, transitions: [] };
  }
  const missed = missDeadlines(timing, live, moment);
  const overdue = findOverdueRuns(timing, missed.live, moment);
  const transitions: Transition[] = [];
  if (missed.opens !== undefined) {
    const { deadlineMs, anchorMs, outageMs } = missed.opens;
    const transition = cause(incidents, missedDeadline(timing, deadlineMs), moment);
    transitions.push(withOutages(transition, { sinceMs: anchorMs, outageMs }, moment));
  }
  if (overdue.run !== undefined) {
    const { startedMs, outageMs } = overdue.run;
    const transition = cause(incidents, overdueRun(timing, overdue.run), moment);
    transitions.push(withOutages(transition, { sinceMs: startedMs, outageMs }, moment));
  }
  const after: LiveState = { ...overdue.live, openIncidents: countOpen(live.openIncidents, transitions) };
  return { live: { ...after, wakeMs: nextWake(timing, after, moment.nowMs) }, transitions };
}

/** Adds the outages that moved the deadline or the run to the incident's timeline (docs/contract/deadlines.md). */
function withOutages(
  transition: Transition,
  { sinceMs = 0, outageMs = 0 }: { sinceMs?: number; outageMs?: number },
  moment: Moment,
): Transition {
  const entries = moment.outages
    .filter(({ toMs }) => toMs <= outageMs && toMs > sinceMs)
    .map(
      ({ fromMs, toMs }): TimelineEntry => ({
        type: 'service_outage',
        atMs: moment.nowMs,
        detail: { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() },
      }),
    );
  return { ...transition, entries: [...transition.entries, ...entries] };
}

/**
 * Lets `missedBeatsToOpen` deadlines pass in a row; `opens` is the deadline that opens the incident. Outages of the
 * service move each of these deadlines, also when a later wake-up is the first to meet the outage.
 */
function missDeadlines(
  timing: Timing,
  live: LiveState,
  moment: Moment,
): { live: LiveState; opens?: LiveState & { deadlineMs: number } } {
  let current = shiftClock(timing, live, moment.outages);
  for (;;) {
    const { deadlineMs } = current;
    if (deadlineMs === undefined || deadlineMs > moment.horizonMs) return { live: current };
    if (inWindow(timing.maintenance, moment.nowMs)) {
      return { live: { ...current, deadlineMs: outOfWindow(moment.nowMs, timing.maintenance) } };
    }
    const missedCount = current.missedCount + 1;
    if (missedCount >= timing.missedBeatsToOpen) {
      return { live: stopClock(current), opens: { ...current, deadlineMs } };
    }
    const followingMs = followingDeadline(timing, current, deadlineMs);
    current = shiftClock(timing, { ...current, deadlineMs: followingMs, missedCount }, moment.outages);
  }
}

/** Each further interval without a beat counts as one more miss. */
function followingDeadline(timing: Timing, live: LiveState, deadlineMs: number): number | undefined {
  const interval = intervalOf(timing, live);
  const next = timing.schedule
    ? timing.schedule.nextAfter(deadlineMs - timing.graceMs)
    : interval && deadlineMs - timing.graceMs + interval;
  return next === undefined ? undefined : outOfWindow(next + timing.graceMs, timing.maintenance);
}

function findOverdueRuns(
  timing: Timing,
  live: LiveState,
  moment: Moment,
): { live: LiveState; run?: OpenRun } {
  if (timing.maxRuntimeMs === undefined || live.openRuns.length === 0) return { live };
  if (inWindow(timing.maintenance, moment.nowMs)) return { live };
  let first: OpenRun | undefined;
  const openRuns = live.openRuns.map((run) => {
    if (run.overdue || run.dueMs === undefined) return run;
    const due = { dueMs: run.dueMs, appliedMs: run.outageMs ?? 0 };
    const { dueMs, appliedMs } = shiftByOutages(timing, due, moment.outages);
    const moved: OpenRun = { ...run, dueMs, outageMs: appliedMs };
    if (dueMs > moment.horizonMs) return moved;
    first ??= moved;
    return { ...moved, overdue: true };
  });
  return { live: { ...live, openRuns }, run: first };
}

/** Opens an incident of the opening's kind, or counts the cause on the open incident of that kind. */
function cause(incidents: readonly Incident[], opening: Opening, moment: Moment): Transition {
  const existing = incidents.find((incident) => incident.kind === opening.kind);
  if (existing) return violateIncident(existing, { deadlineMs: opening.deadlineMs }, moment.nowMs);
  return openIncident(opening, moment.nowMs);
}

function missedDeadline(timing: Timing, deadlineMs: number): Opening {
  const times =
    timing.missedBeatsToOpen === 1 ? 'No beat' : `No beat for ${timing.missedBeatsToOpen} intervals`;
  return {
    incidentId: newId('inc'),
    kind: 'missed_deadline',
    severity: 'critical',
    deadlineMs,
    summary: `${times} came before the deadline at ${new Date(deadlineMs).toISOString()}.`,
  };
}

function overdueRun(timing: Timing, { startedMs, dueMs }: OpenRun): Opening {
  return {
    incidentId: newId('inc'),
    kind: 'overdue_run',
    severity: 'critical',
    deadlineMs: dueMs,
    summary: `The run that began at ${new Date(startedMs).toISOString()} did not end in ${(timing.maxRuntimeMs ?? 0) / 1000} s.`,
  };
}
