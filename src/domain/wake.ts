// What the passing of time does to a monitor: missed deadline, overdue run, a rule that gets graver, late mark, begin and end
// of a window. Pure; the sweeper calls it for each row whose wake_ms has passed, under the row's lock.
import { countOpen } from './beat.ts';
import { beginRest, endRest, stopClock, withWake } from './deadline.ts';
import { type Causes, decideHeld, holdAlerts, lookAgainMs } from './held-alerts.ts';
import type { Incident, Opening, TimelineEntry, Transition } from './incident.ts';
import { openIncident, violateIncident } from './incident.ts';
import { escalateRules, isEscalationDue, type MonitorRules } from './judged-beat.ts';
import { outOfWindow, windowAt } from './maintenance.ts';
import type { LiveState, OpenRun, Outage, Timing } from './monitor.ts';
import { type BeatenMoment, nextLook } from './operator-sign.ts';
import { applyExcuse, deadlinesOf, firstDeadline, mayHaveLostEnd, outagesIn, refusedIn } from './silence.ts';
import { toTime } from './timestamp.ts';

export interface Moment {
  /** The database's clock. */
  nowMs: number;
  /** Every beat that arrived before it is committed or excused: no deadline after it counts as missed. */
  horizonMs: number;
  /** Outages that may still matter, as `mergeOutages` returns them: of the service, and of the operator that beats the monitor. */
  outages: readonly Outage[];
  /** When the organization was last served again after a suspension. */
  returnedMs?: number;
  /** Needed where `live.holdMs` has come. */
  causes?: Causes;
  /** Of a monitor that an operator beats (`momentOf`). */
  operator?: BeatenMoment['operator'];
  service?: BeatenMoment['service'];
}

export interface WakeResult {
  live: LiveState;
  transitions: Transition[];
  /** It is due, and may not be judged before the next sign of its operator. */
  waitsForOperator?: true;
}

/**
 * Applies the time that has passed. `incidents`: those of the monitor that have not ended. `rules`: needed where
 * `isEscalationDue`.
 */
export function wakeMonitor(
  timing: Timing,
  live: LiveState,
  incidents: readonly Incident[],
  moment: Moment,
  rules?: MonitorRules,
): WakeResult {
  if (timing.lifecycle !== 'active') {
    return { live: { ...live, wakeMs: undefined }, transitions: [] };
  }
  const running = endRest(timing, restUntilReturn(timing, live, moment), moment.nowMs);
  const missed = missDeadlines(timing, applyExcuse(timing, running, moment.nowMs), moment);
  const overdue = findOverdueRuns(timing, missed.live, moment);
  const transitions: Transition[] = [];
  if (missed.opensMs !== undefined) {
    const transition = cause(incidents, missedDeadline(timing, missed.opensMs), moment);
    const moved = movedBy(missed.live, missed.opensMs, transition.isNew, moment);
    transitions.push({ ...transition, entries: [...transition.entries, ...moved] });
  }
  if (overdue.run !== undefined) transitions.push(cause(incidents, overdueRun(timing, overdue.run), moment));
  const counted: LiveState = { ...overdue.live, openIncidents: countOpen(live.openIncidents, transitions) };
  const { live: after, transitions: graver } = escalateRules(timing, counted, { rules, incidents }, moment);
  const held = holdAlerts(timing, after, [...transitions, ...graver], moment.nowMs);
  const decided = decideAlerts(timing, held, incidents, moment);
  return waitForOperator({ ...decided, live: withWake(timing, decided.live, moment.nowMs) }, moment);
}

/** What waits for the operator alone would be claimed again at once. */
function waitForOperator(result: WakeResult, { nowMs, operator, service }: Moment): WakeResult {
  const { wakeMs } = result.live;
  if (!operator || !service || wakeMs === undefined || wakeMs > service.horizonMs) return result;
  return { ...result, live: { ...result.live, wakeMs: nextLook(operator, nowMs) }, waitsForOperator: true };
}

/** Held alerts about whose incidents nothing else has been decided now. */
function decideAlerts(
  timing: Timing,
  { live, transitions }: WakeResult,
  incidents: readonly Incident[],
  moment: Moment,
): WakeResult {
  const isChanged = ({ incidentId }: Incident) =>
    transitions.some(({ incident }) => incident.incidentId === incidentId);
  const decided = decideHeld(
    timing,
    live,
    incidents.filter((incident) => !isChanged(incident)),
    moment,
  );
  const looks = transitions.flatMap(({ incident }) => lookAgainMs(incident, moment.nowMs) ?? []);
  const holdMs = Math.min(decided.live.holdMs ?? Number.POSITIVE_INFINITY, ...looks);
  return {
    live: { ...decided.live, holdMs: Number.isFinite(holdMs) ? holdMs : undefined },
    transitions: [...transitions, ...decided.transitions],
  };
}

/**
 * What the time does while the organization is suspended (docs/contract/organization.md): nothing opens. A deadline that
 * passes rests until the return: without another wake, so that customers who left cost nothing. A run that falls due is
 * forgotten: its end may have been refused. So is a rule that time would make graver: the next beat decides. The gap between
 * two successes that crosses the suspension teaches no cadence. Its maintenance schedules wake it again from its next beat on.
 */
export function wakeSuspended(timing: Timing, live: LiveState, nowMs: number): LiveState {
  // Nobody is told of anything meanwhile: a job of the sweeper wakes what is held when the organization returns.
  const after = { ...restAt(timing, live, nowMs), gapBroken: true, holdMs: undefined };
  return { ...withWake({ ...timing, recurrence: undefined }, after, nowMs), holdMs: live.holdMs };
}

/** The deadline that has passed at `atMs` rests; runs and rules that have fallen due are forgotten. */
function restAt(timing: Timing, live: LiveState, atMs: number): LiveState {
  const { deadlineMs } = live;
  const clocked = deadlineMs !== undefined && deadlineMs <= atMs ? beginRest(live, deadlineMs) : live;
  const openRuns = clocked.openRuns.filter(
    ({ dueMs, overdue }) => overdue || dueMs === undefined || outOfWindow(dueMs, timing) > atMs,
  );
  const isDue = isEscalationDue(timing, live, { nowMs: atMs, horizonMs: atMs });
  const escalatesMs = isDue ? undefined : live.escalatesMs;
  return { ...clocked, openRuns, escalatesMs };
}

/** A return that is further ahead was before the database's clock was set back. */
const MOST_AHEAD_MS = 60_000;

/** What `wakeSuspended` would have made of the live state, had a sweeper looked during the suspension that is over. */
export function restUntilReturn(
  timing: Timing,
  live: LiveState,
  { nowMs, returnedMs }: Pick<Moment, 'nowMs' | 'returnedMs'>,
): LiveState {
  if (returnedMs === undefined || returnedMs > nowMs + MOST_AHEAD_MS) return live;
  const crossesReturn = live.lastSuccessMs !== undefined && live.lastSuccessMs <= returnedMs;
  return { ...restAt(timing, live, returnedMs), gapBroken: live.gapBroken || crossesReturn };
}

/**
 * The deadline that rests, also where no sweeper has looked since the organization was suspended, or since it returned.
 * `isSuspended`: at `nowMs`.
 */
export function restingSince(
  timing: Timing,
  live: LiveState,
  { nowMs, returnedMs, isSuspended }: Pick<Moment, 'nowMs' | 'returnedMs'> & { isSuspended: boolean },
): number | undefined {
  const untilMs = isSuspended ? nowMs : returnedMs;
  if (live.deadlineMs === undefined || untilMs === undefined || live.deadlineMs > untilMs)
    return live.restsSinceMs;
  return restUntilReturn(timing, live, { nowMs, returnedMs: untilMs }).restsSinceMs;
}

/** The most outages named in the timeline of an incident: the newest. */
const MAX_NAMED_OUTAGES = 20;

/**
 * What moved the missed deadline, for the incident's timeline (docs/contract/deadlines.md). An incident that was there
 * before has its own entry of each outage.
 */
function movedBy(live: LiveState, untilMs: number, isNew: boolean, moment: Moment): TimelineEntry[] {
  const refused = refusedIn(live);
  const outages = isNew ? namedOutages(live, untilMs, moment) : [];
  return [...(refused ? [refused] : []), ...outages].map(({ fromMs, toMs, ...more }) => ({
    type: 'service_outage',
    atMs: moment.nowMs,
    detail: { from: toTime(fromMs), to: toTime(toMs), ...more },
  }));
}

/** The newest ones, oldest first; those of the operator are named as such. */
function namedOutages(live: LiveState, untilMs: number, { outages, operator, service }: Moment) {
  const newest = { untilMs, limit: MAX_NAMED_OUTAGES };
  const ofService = outagesIn(live, service?.outages ?? outages, newest);
  const ofOperator = outagesIn(live, operator?.outages ?? [], newest);
  if (ofOperator.length === 0) return ofService;
  const all = [...ofService, ...ofOperator.map((outage) => ({ ...outage, reason: 'no_operator' }))];
  return all.sort((one, other) => one.fromMs - other.fromMs).slice(-MAX_NAMED_OUTAGES);
}

/** Counts the deadlines that have passed; `opensMs` is the one that opens the incident. */
function missDeadlines(
  timing: Timing,
  live: LiveState,
  moment: Moment,
): { live: LiveState; opensMs?: number } {
  const deadlines = deadlinesOf(timing, live, moment.outages);
  if (deadlines.length === 0) return { live };
  const missedCount = deadlines.filter((deadlineMs) => deadlineMs <= moment.horizonMs).length;
  const deadlineMs = deadlines[missedCount];
  if (deadlineMs !== undefined) {
    const firstMs = firstDeadline(timing, live);
    const unmovedMs = firstMs === deadlineMs ? undefined : firstMs;
    return { live: { ...live, deadlineMs, missedCount, unmovedMs } };
  }
  // It passed just before the window began: the silence is counted from the window's end.
  const window = windowAt(timing, moment.nowMs);
  if (window) {
    return missDeadlines(timing, { ...live, deadlineMs: window.endsMs, unmovedMs: undefined }, moment);
  }
  return { live: stopClock(live), opensMs: deadlines.at(-1) };
}

function findOverdueRuns(
  timing: Timing,
  live: LiveState,
  moment: Moment,
): { live: LiveState; run?: OpenRun } {
  if (timing.maxRuntimeMs === undefined || live.openRuns.length === 0) return { live };
  if (windowAt(timing, moment.nowMs)) return { live };
  let first: OpenRun | undefined;
  const openRuns = live.openRuns.map((run) => {
    if (run.overdue || run.dueMs === undefined) return run;
    const dueMs = outOfWindow(run.dueMs, timing);
    if (dueMs > moment.horizonMs) return run;
    // Its end may be lost. If the job is dead, the deadline finds it.
    // An operator that was away tells of the end before its next sign.
    if (mayHaveLostEnd({ ...run, dueMs }, live, moment.service?.outages ?? moment.outages)) {
      return { ...run, dueMs: undefined, mayHaveEnded: true };
    }
    const overdue = { ...run, dueMs, overdue: true };
    first ??= overdue;
    return overdue;
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
    kind: 'missed_deadline',
    severity: 'critical',
    deadlineMs,
    summary: `${times} came before the deadline at ${toTime(deadlineMs)}.`,
  };
}

function overdueRun(timing: Timing, { startedMs, dueMs }: OpenRun): Opening {
  return {
    kind: 'overdue_run',
    severity: 'critical',
    deadlineMs: dueMs,
    summary: `The run that began at ${toTime(startedMs)} did not end in ${(timing.maxRuntimeMs ?? 0) / 1000} s.`,
  };
}
