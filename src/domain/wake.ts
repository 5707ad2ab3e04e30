// What time alone does to a monitor: a missed deadline, an overdue run, the late mark, an end of a window. Pure; the
// sweeper calls it for each row whose wake_ms has come, under the row's lock.
import { countOpen } from './beat.ts';
import { intervalOf, nextWake, outOfWindow, shiftByOutages, stopClock } from './deadline.ts';
import { newId } from './id.ts';
import type { Incident, Opening, TimelineEntry, Transition } from './incident.ts';
import { openIncident, violateIncident } from './incident.ts';
import type { LiveState, Outage, Timing } from './monitor.ts';
import { inWindow } from './monitor.ts';

export interface Moment {
  /** The database's clock. */
  nowMs: number;
  /** The last moment at which an api was seen able to accept beats: nothing later can be called missed. */
  horizonMs: number;
  /** Own outages that may matter still, oldest first. */
  outages: readonly Outage[];
}

export interface WakeResult {
  live: LiveState;
  transitions: Transition[];
}

/** Applies the time that has passed. `incidents`: the monitor's not-ended ones. */
export function wakeMonitor(
  timing: Timing,
  live: LiveState,
  incidents: readonly Incident[],
  moment: Moment,
): WakeResult {
  if (timing.lifecycle !== 'active') {
    return { live: { ...live, wakeMs: undefined }, transitions: [] };
  }
  const shifted = shiftDeadline(timing, live, moment);
  const missed = missDeadlines(timing, shifted, moment);
  const overdue = findOverdueRuns(timing, missed.live, moment);
  const transitions: Transition[] = [];
  if (missed.opens !== undefined) {
    const transition = cause(incidents, missedDeadline(timing, missed.opens), moment);
    transitions.push({ ...transition, entries: [...transition.entries, ...outageEntries(shifted, moment)] });
  }
  if (overdue.startedMs !== undefined) {
    transitions.push(cause(incidents, overdueRun(timing, overdue.startedMs), moment));
  }
  const after: LiveState = { ...overdue.live, openIncidents: countOpen(live.openIncidents, transitions) };
  return { live: { ...after, wakeMs: nextWake(timing, after, moment.nowMs) }, transitions };
}

function shiftDeadline(timing: Timing, live: LiveState, moment: Moment): LiveState {
  if (live.deadlineMs === undefined) return live;
  const due = { dueMs: live.deadlineMs, appliedMs: live.outageMs };
  const { dueMs, appliedMs } = shiftByOutages(timing, due, moment.outages);
  return appliedMs === live.outageMs ? live : { ...live, deadlineMs: dueMs, outageMs: appliedMs };
}

/** The spans that moved this deadline stand in the timeline of what it opens (completion.md 3.2). */
function outageEntries(live: LiveState, moment: Moment): TimelineEntry[] {
  return moment.outages
    .filter(({ toMs }) => toMs <= live.outageMs && toMs > (live.anchorMs ?? 0))
    .map(({ fromMs, toMs }) => ({
      type: 'service_outage' as const,
      atMs: moment.nowMs,
      detail: { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() },
    }));
}

/** Lets `missedBeatsToOpen` deadlines pass in a row; `opens` is the one that was too many. */
function missDeadlines(timing: Timing, live: LiveState, moment: Moment): { live: LiveState; opens?: number } {
  let { deadlineMs, missedCount } = live;
  while (deadlineMs !== undefined && deadlineMs <= moment.horizonMs) {
    if (inWindow(timing.maintenance, moment.nowMs)) {
      return { live: { ...live, deadlineMs: outOfWindow(moment.nowMs, timing.maintenance), missedCount } };
    }
    missedCount += 1;
    if (missedCount >= timing.missedBeatsToOpen) return { live: stopClock(live), opens: deadlineMs };
    deadlineMs = followingDeadline(timing, live, deadlineMs);
  }
  return { live: { ...live, deadlineMs, missedCount } };
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
): { live: LiveState; startedMs?: number } {
  if (timing.maxRuntimeMs === undefined || live.openRuns.length === 0) return { live };
  if (inWindow(timing.maintenance, moment.nowMs)) return { live };
  let startedMs: number | undefined;
  const openRuns = live.openRuns.map((run) => {
    if (run.overdue || run.dueMs === undefined) return run;
    const due = { dueMs: run.dueMs, appliedMs: run.outageMs ?? 0 };
    const { dueMs, appliedMs } = shiftByOutages(timing, due, moment.outages);
    if (dueMs > moment.horizonMs) return { ...run, dueMs, outageMs: appliedMs };
    startedMs ??= run.startedMs;
    return { ...run, overdue: true };
  });
  return { live: { ...live, openRuns }, startedMs };
}

/** Opens an incident of the opening's kind, or counts the cause on the one that is open already. */
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

function overdueRun(timing: Timing, startedMs: number): Opening {
  return {
    incidentId: newId('inc'),
    kind: 'overdue_run',
    severity: 'critical',
    deadlineMs: startedMs + (timing.maxRuntimeMs ?? 0),
    summary: `The run that began at ${new Date(startedMs).toISOString()} did not end in ${(timing.maxRuntimeMs ?? 0) / 1000} s.`,
  };
}
