// What a beat does to a monitor (docs/contract/beats.md): (timing, live state, open incidents, beat, now) -> the state
// after it, its observation and the incidents that change. Pure: one function for the ping address and for test beats.
import { learnGap } from './cadence.ts';
import { nextWake, runDue, startClock } from './deadline.ts';
import { newId } from './id.ts';
import type { Incident, Transition } from './incident.ts';
import { conformIncident, openIncident, recoversByBeat, violateIncident } from './incident.ts';
import type { LiveState, OpenRun, Timing } from './monitor.ts';
import { suppression } from './monitor.ts';

export const BEAT_KINDS = ['success', 'fail', 'start', 'log'] as const;
export type BeatKind = (typeof BEAT_KINDS)[number];

export interface Beat {
  kind: BeatKind;
  runId?: string;
  exitStatus?: number;
  message?: string;
}

export interface BeatResult {
  live: LiveState;
  sequence: number;
  /** It came past the deadline. Before a sweeper has opened the incident it wins: nothing opens. */
  late: boolean;
  /** From the start that it ends. */
  durationSeconds?: number;
  transitions: Transition[];
}

/** Open runs that are kept; a sender that only ever starts runs must not grow the row. */
const MAX_OPEN_RUNS = 50;

/** Applies one accepted beat. `incidents`: the monitor's not-ended ones. The monitor is not archived. */
export function applyBeat(
  timing: Timing,
  live: LiveState,
  incidents: readonly Incident[],
  beat: Beat,
  nowMs: number,
): BeatResult {
  const sequence = live.lastSequence + 1;
  if (beat.kind === 'log') {
    return { live: { ...live, lastSequence: sequence }, sequence, late: false, transitions: [] };
  }
  const late = isLate(timing, live, incidents, nowMs);
  const seen: LiveState = {
    ...live,
    lastSequence: sequence,
    firstBeatMs: live.firstBeatMs ?? nowMs,
    lastBeatMs: nowMs,
  };
  if (beat.kind === 'start') {
    return { live: withStart(timing, seen, beat.runId, nowMs), sequence, late, transitions: [] };
  }
  const { openRuns, startedMs } = closeRun(live.openRuns, beat.runId);
  const learned = beat.kind === 'success' ? learn(timing, seen, nowMs) : seen;
  const clocked = startClock(timing, { ...learned, openRuns }, nowMs);
  const transitions = changeIncidents(timing, incidents, beat, sequence, nowMs);
  const after: LiveState = { ...clocked, openIncidents: countOpen(live.openIncidents, transitions) };
  return {
    live: { ...after, wakeMs: nextWake(timing, after, nowMs) },
    sequence,
    late,
    durationSeconds: startedMs === undefined ? undefined : Math.max(0, nowMs - startedMs) / 1000,
    transitions,
  };
}

/**
 * A beat that is refused for its content, size or plan still shows that the job ran: it moves a deadline that runs,
 * and nothing else (docs/contract/beats.md).
 */
export function applyRefusedBeat(timing: Timing, live: LiveState, nowMs: number): LiveState {
  if (live.deadlineMs === undefined) return live;
  const moved = startClock(timing, live, nowMs);
  return { ...moved, wakeMs: nextWake(timing, moved, nowMs) };
}

/** Incidents that are not ended after `transitions`, when there were `before`. */
export function countOpen(before: number, transitions: readonly Transition[]): number {
  let count = before;
  for (const { incident, isNew } of transitions) {
    const open = incident.state === 'open' || incident.state === 'recovering';
    if (isNew && open) count += 1;
    if (!isNew && !open) count -= 1;
  }
  return Math.max(0, count);
}

/** Past the deadline, whatever the sweeper has made of that by now: nothing, a miss counted, or an incident. */
function isLate(timing: Timing, live: LiveState, incidents: readonly Incident[], nowMs: number): boolean {
  if (live.deadlineMs !== undefined) return live.missedCount > 0 || nowMs > live.deadlineMs;
  const isMissed = ({ kind, state }: Incident) => kind === 'missed_deadline' && state === 'open';
  return timing.lifecycle === 'active' && incidents.some(isMissed);
}

function withStart(timing: Timing, live: LiveState, runId: string | undefined, nowMs: number): LiveState {
  const others = live.openRuns.filter((run) => run.runId !== runId);
  const openRuns = [...others, { runId, startedMs: nowMs, dueMs: runDue(timing, nowMs) }].slice(
    -MAX_OPEN_RUNS,
  );
  const started = { ...live, openRuns };
  const clocked = live.deadlineMs === undefined ? startClock(timing, started, nowMs) : started;
  return { ...clocked, wakeMs: nextWake(timing, clocked, nowMs) };
}

/**
 * The run that an end closes: the one of its id; without an id the run without one, else all (a sender that names
 * its starts and not its ends runs one at a time, and a forgotten run would be reported as overdue).
 */
function closeRun(runs: OpenRun[], runId: string | undefined): { openRuns: OpenRun[]; startedMs?: number } {
  const own = runs.find((run) => run.runId === runId);
  if (own) return { openRuns: runs.filter((run) => run !== own), startedMs: own.startedMs };
  if (runId !== undefined || runs.length === 0) return { openRuns: runs };
  return { openRuns: [], startedMs: runs.at(-1)?.startedMs };
}

/** Gaps that cross a pause, a window or an open incident are not learned from (docs/contract/deadlines.md). */
function learn(timing: Timing, live: LiveState, nowMs: number): LiveState {
  if (timing.intervalMs !== undefined || timing.schedule) return { ...live, lastSuccessMs: nowMs };
  const crossesWindow =
    timing.maintenance !== undefined &&
    live.lastSuccessMs !== undefined &&
    timing.maintenance.startsMs <= nowMs &&
    live.lastSuccessMs < timing.maintenance.endsMs;
  const broken = live.gapBroken || live.openIncidents > 0 || crossesWindow || timing.lifecycle !== 'active';
  // The database's clock may have been set back, by more than a column of gaps holds.
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
        incidentId: newId('inc'),
        kind: 'reported_failure',
        severity: 'critical',
        sequence,
        summary: `The job reported a failure${exit}.`,
      },
      nowMs,
    ),
  ];
}
