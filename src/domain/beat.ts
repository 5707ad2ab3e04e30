// What a beat does to a monitor (docs/contract/beats.md): (timing, live state, open incidents, beat, now) -> the next
// state, the observation and the incidents that change. Pure; beat-decision.ts decides whether it is taken.
import { learnGap } from './cadence.ts';
import {
  putOffWake,
  runDue,
  slotOfEnd,
  slotOfStart,
  startClock,
  withWake,
  withWakeAfterChange,
} from './deadline.ts';
import type { Incident, Transition } from './incident.ts';
import { conformIncident, openIncident, recoversByBeat, violateIncident } from './incident.ts';
import { crossesWindow } from './maintenance.ts';
import type { LiveState, OpenRun, Timing } from './monitor.ts';
import { AFTER_A_BEAT, suppression } from './monitor.ts';
import { applyExcuse } from './silence.ts';
import { parseTimestamp } from './timestamp.ts';

/** The kinds of an observation. */
export const BEAT_KINDS = ['success', 'fail', 'start', 'log'] as const;
export type BeatKind = (typeof BEAT_KINDS)[number];

/** What the JSON body of a beat may say of it. A `cancel` is recorded as a `log`. */
export const BEAT_STATUSES = [...BEAT_KINDS, 'cancel'] as const;
export type BeatStatus = (typeof BEAT_STATUSES)[number];

export function recordedKind(status: BeatStatus): BeatKind {
  return status === 'cancel' ? 'log' : status;
}

export interface Beat {
  kind: BeatStatus;
  runId?: string;
  exitStatus?: number;
  message?: string;
  /** The sender's clock, RFC 3339. */
  observedAt?: string;
}

export interface BeatResult {
  live: LiveState;
  sequence: number;
  /** The beat came after the deadline. It still wins while no sweeper has opened the incident: then nothing opens. */
  late: boolean;
  /** Of the run that this beat ends. */
  durationSeconds?: number;
  transitions: Transition[];
}

/** Open runs kept per monitor: a sender that starts runs and never ends them must not grow the row. */
const MAX_OPEN_RUNS = 50;

/** Applies one accepted beat. `incidents`: those of the monitor that have not ended. The monitor is not archived. */
export function applyBeat(
  timing: Timing,
  live: LiveState,
  incidents: readonly Incident[],
  beat: Beat,
  nowMs: number,
): BeatResult {
  const sequence = live.lastSequence + 1;
  if (beat.kind === 'log' || beat.kind === 'cancel') {
    const counted = { ...live, lastSequence: sequence };
    const after = beat.kind === 'log' ? counted : cancelRun(timing, counted, beat.runId, nowMs);
    return { live: after, sequence, late: false, transitions: [] };
  }
  const late = isLate(timing, live, incidents, nowMs);
  const seen: LiveState = {
    ...live,
    lastSequence: sequence,
    firstBeatMs: live.firstBeatMs ?? nowMs,
    lastBeatMs: nowMs,
  };
  if (beat.kind === 'start') {
    return { live: withStart(timing, seen, beat, nowMs), sequence, late, transitions: [] };
  }
  const { openRuns, ended } = closeRun(live.openRuns, beat.runId);
  const learned = beat.kind === 'success' ? learn(timing, seen, nowMs) : seen;
  const fromMs = slotOfEnd(live, nowMs);
  const clocked = startClock(timing, { ...learned, openRuns }, fromMs);
  const transitions = changeIncidents(timing, incidents, beat, sequence, nowMs);
  const durationMs = ended && durationOf(ended, beat, nowMs);
  const after: LiveState = {
    ...clocked,
    // The next start is the first one after an end, also where the clock stands at the slot of the last one.
    startMovedMs: fromMs === live.startMovedMs ? undefined : live.startMovedMs,
    openIncidents: countOpen(live.openIncidents, transitions),
    lastDurationMs: durationMs ?? live.lastDurationMs,
  };
  return {
    live: rearm(timing, after, nowMs),
    sequence,
    late,
    durationSeconds: durationMs === undefined ? undefined : durationMs / 1000,
    transitions,
  };
}

/**
 * A success or a fail that is refused for its content, its size or the plan still shows that the job ran: it moves a
 * running deadline (docs/contract/beats.md), and no rule gets graver by the time after it (docs/contract/rules.md). Returns the
 * same object where nothing changes.
 */
export function applyRefusedBeat(timing: Timing, live: LiveState, nowMs: number): LiveState {
  if (live.deadlineMs === undefined && awaitBeat(live) === live) return live;
  const seen = awaitBeat(live);
  return rearm(
    timing,
    live.deadlineMs === undefined ? seen : startClock(timing, seen, slotOfEnd(seen, nowMs)),
    nowMs,
  );
}

/**
 * No rule gets graver by the time alone before the next success: nobody knows whether the numbers of a refused beat conform,
 * and a change of the rules does not know it either, also where none counted the time before it. Returns the same object where
 * nothing changes.
 */
export function awaitBeat(live: LiveState): LiveState {
  const { escalatesMs, ruleStates } = live;
  const hasRules = escalatesMs !== undefined || ruleStates !== undefined;
  return hasRules && escalatesMs !== AFTER_A_BEAT ? { ...live, escalatesMs: AFTER_A_BEAT } : live;
}

/**
 * A beat that is refused because the organization is suspended: an end and a cancel close their run too, which come only once,
 * and the gap from an end to the next success that counts teaches nothing. Returns the same object where nothing changes.
 */
export function applySuspendedBeat(
  timing: Timing,
  live: LiveState,
  { kind, runId }: Beat,
  nowMs: number,
): LiveState {
  if (kind === 'cancel') return cancelRun(timing, live, runId, nowMs);
  if (kind !== 'success' && kind !== 'fail') return live;
  const { openRuns } = closeRun(live.openRuns, runId);
  const isKnown = live.gapBroken && openRuns.length === live.openRuns.length;
  return applyRefusedBeat(timing, isKnown ? live : { ...live, openRuns, gapBroken: true }, nowMs);
}

/** The live state with the wake that follows from it. */
export function rearm(timing: Timing, live: LiveState, nowMs: number): LiveState {
  const woken = withWake(timing, live, nowMs);
  return { ...woken, wakeMs: putOffWake(live.wakeMs, woken.wakeMs, nowMs) };
}

/** The number of incidents that have not ended after `transitions`, from the number `before`. */
export function countOpen(before: number, transitions: readonly Transition[]): number {
  let count = before;
  for (const { incident, isNew } of transitions) {
    const open = incident.state === 'open' || incident.state === 'recovering';
    if (isNew && open) count += 1;
    if (!isNew && !open) count -= 1;
  }
  return Math.max(0, count);
}

/** Whether the deadline has passed; the sweeper may have done nothing yet, counted a miss, or opened an incident. */
function isLate(timing: Timing, live: LiveState, incidents: readonly Incident[], nowMs: number): boolean {
  const { deadlineMs, missedCount } = applyExcuse(timing, live, nowMs);
  if (deadlineMs !== undefined) return missedCount > 0 || nowMs > deadlineMs;
  const isMissed = ({ kind, state }: Incident) => kind === 'missed_deadline' && state === 'open';
  return timing.lifecycle === 'active' && incidents.some(isMissed);
}

function withStart(timing: Timing, live: LiveState, { runId, observedAt }: Beat, nowMs: number): LiveState {
  const others = live.openRuns.filter((run) => run.runId !== runId);
  const dueMs = runDue(timing, { startedMs: nowMs });
  const openRuns = [
    ...others,
    { runId, startedMs: nowMs, observedMs: observedMsOf(observedAt), dueMs },
  ].slice(-MAX_OPEN_RUNS);
  const started = { ...live, openRuns };
  const isSecond = live.startMovedMs !== undefined && live.startMovedMs === live.anchorMs;
  const moves = timing.startsMove === true && !isSecond;
  const fromMs = slotOfStart(timing, nowMs);
  const begun = moves ? { ...started, startMovedMs: fromMs } : started;
  const clocked = live.deadlineMs === undefined || moves ? startClock(timing, begun, fromMs) : started;
  return rearm(timing, clocked, nowMs);
}

/**
 * Closes the run that an end belongs to: the run with its id. An end without an id closes the run without an id, or
 * else all runs: a sender that names its starts and not its ends has one run at a time, and a run left open would be
 * reported as overdue.
 */
function closeRun(runs: OpenRun[], runId: string | undefined): { openRuns: OpenRun[]; ended?: OpenRun } {
  const own = runs.find((run) => run.runId === runId);
  if (own) return { openRuns: runs.filter((run) => run !== own), ended: own };
  if (runId !== undefined || runs.length === 0) return { openRuns: runs };
  return { openRuns: [], ended: runs.at(-1) };
}

/**
 * The run of a cancel neither succeeded nor failed: only its limit ends. It may have been the next thing that the sweeper
 * looks at.
 */
function cancelRun(timing: Timing, live: LiveState, runId: string | undefined, nowMs: number): LiveState {
  const { openRuns, ended } = closeRun(live.openRuns, runId);
  return ended ? withWakeAfterChange(timing, { ...live, openRuns }, nowMs) : live;
}

function observedMsOf(observedAt: string | undefined): number | undefined {
  return observedAt === undefined ? undefined : parseTimestamp(observedAt);
}

/**
 * By the clock of the sender, where it states both ends and they are in order: its beats may have come late, or together. Else
 * between the arrivals.
 */
function durationOf({ startedMs, observedMs }: OpenRun, { observedAt }: Beat, nowMs: number): number {
  const endedMs = observedMsOf(observedAt);
  if (observedMs !== undefined && endedMs !== undefined && endedMs >= observedMs) return endedMs - observedMs;
  return Math.max(0, nowMs - startedMs);
}

/** A gap that crosses a pause, a window, a suspension or an open incident teaches nothing (docs/contract/deadlines.md). */
function learn(timing: Timing, live: LiveState, nowMs: number): LiveState {
  if (timing.intervalMs !== undefined || timing.schedule) return { ...live, lastSuccessMs: nowMs };
  const isInterrupted = live.lastSuccessMs !== undefined && crossesWindow(timing, live.lastSuccessMs, nowMs);
  const broken = live.gapBroken || live.openIncidents > 0 || isInterrupted || timing.lifecycle !== 'active';
  // The database's clock may have been set back, by more than the column of gaps can hold.
  if (broken || live.lastSuccessMs === undefined || live.lastSuccessMs > nowMs) {
    return { ...live, lastSuccessMs: nowMs, gapBroken: false };
  }
  const { gaps, cadenceMs } = learnGap(live.gaps, nowMs - live.lastSuccessMs, timing.minimumIntervalMs);
  return { ...live, lastSuccessMs: nowMs, gaps, cadenceMs };
}

function changeIncidents(
  timing: Timing,
  incidents: readonly Incident[],
  beat: Beat,
  sequence: number,
  nowMs: number,
): Transition[] {
  if (beat.kind === 'success') {
    return incidents
      .filter((incident) => recoversByBeat(incident.kind))
      .map((incident) => conformIncident(incident, { sequence, needed: timing.recoveryBeats }, nowMs));
  }
  const reported = incidents.find((incident) => incident.kind === 'reported_failure');
  if (suppression(timing, nowMs)) return [];
  if (reported) return [violateIncident(reported, { sequence }, nowMs)];
  const exit = beat.exitStatus === undefined ? '' : ` with exit status ${beat.exitStatus}`;
  return [
    openIncident(
      {
        kind: 'reported_failure',
        severity: 'critical',
        sequence,
        summary: `The job reported a failure${exit}.`,
      },
      nowMs,
    ),
  ];
}
