// Why a deadline is where it is: the parts from the start of the clock on, which add up to it. Each part is what a step of
// the rules of docs/contract/deadlines.md adds, counted by the functions that set deadlines. Pure.
import { deadlineAfter, intervalOf, startClock } from '../deadline.ts';
import { makesDown } from '../incident.ts';
import { windowAt } from '../maintenance.ts';
import type { LiveState, Outage, Timing } from '../monitor.ts';
import { applyExcuse, deadlinesOf, firstDeadline, outagesIn } from '../silence.ts';
import { explainStop } from './explain-stop.ts';
import type { ClockStart, DeadlinePart, ExplainedDeadline, Situation, State } from './situation.ts';
import { spanWords, timeWords } from './words.ts';

type Counted = State & Pick<Situation, 'start'>;

export function explainDeadline(situation: Counted): ExplainedDeadline {
  const { timing, live, atMs, restsSinceMs } = situation;
  const excused = applyExcuse(timing, live, atMs);
  const { anchorMs } = excused;
  const outages = situation.outages;
  const deadlines = deadlinesOf(timing, excused, outages);
  const index = Math.min(excused.missedCount, deadlines.length - 1);
  const deadlineMs = deadlines[index];
  const isStopped = timing.lifecycle !== 'active' || restsSinceMs !== undefined;
  if (isStopped || deadlineMs === undefined || anchorMs === undefined) {
    return { parts: [explainStop(situation, (ms) => timeWords(ms, situation.atMs))] };
  }
  const parts = [...startParts(situation, excused), ...clockParts(timing, excused, anchorMs)];
  const firstMs = firstDeadline(timing, excused) ?? deadlineMs;
  addStep(parts, firstMs, (ms) => changePart(situation, ms, firstMs));
  const missedMs = deadlinesOf(timing, excused, [])[index] ?? firstMs;
  addStep(parts, missedMs, (ms) => missedPart(timing, index, ms));
  addStep(parts, deadlineMs, (ms) => outagePart(situation, excused, { ms, deadlineMs }));
  return { atMs: deadlineMs, parts };
}

/**
 * The deadline that was missed and makes the monitor down, from the clock that ran then. Undefined: there is none, or what is
 * known now does not add up to it.
 */
export function explainMissed(state: State): ExplainedDeadline | undefined {
  const { timing, live, incidents } = state;
  const missed = incidents.find((one) => one.state === 'open' && makesDown(one));
  const { anchorMs } = live;
  if (missed?.kind !== 'missed_deadline' || missed.deadlineMs === undefined || anchorMs === undefined) return;
  const begun = startClock(timing, { ...live, excusedMs: undefined }, anchorMs);
  const last = { ...begun, missedCount: timing.missedBeatsToOpen - 1 };
  const explained = explainDeadline({ ...state, live: last, restsSinceMs: undefined });
  return explained.atMs === missed.deadlineMs ? explained : undefined;
}

/** Adds the part that leads from the parts so far to `toMs`, where there is a way to go. */
function addStep(parts: DeadlinePart[], toMs: number, part: (ms: number) => DeadlinePart): void {
  const ms = toMs - sumOf(parts);
  if (ms !== 0) parts.push(part(ms));
}

function sumOf(parts: readonly DeadlinePart[]): number {
  return parts.reduce((sum, { ms = 0 }) => sum + ms, parts[0]?.atMs ?? 0);
}

const STARTS: Record<ClockStart, string> = {
  success: 'The last success came at',
  fail: 'The last fail came at',
  start: 'The clock started with a start at',
  log: 'The clock started at',
  creation: 'The clock started with the creation at',
  resume: 'The clock started with the resume at',
  restore: 'The clock started with the restore at',
  exit_maintenance: 'The clock started with the end of the maintenance at',
  enter_maintenance: 'The clock started at',
  pause: 'The clock started at',
  archive: 'The clock started at',
  configuration: 'The clock started with a change of the monitor at',
  resolve: 'The clock started when the incident was resolved at',
  refused:
    'A beat was refused, the organization was active again after a suspension, or the monitor left its operator, at',
  unknown: 'The clock started at',
};
const PART_OF_START: Partial<Record<ClockStart, DeadlinePart['kind']>> = {
  success: 'last_beat',
  fail: 'last_beat',
  start: 'last_beat',
  refused: 'refused_beat',
};

function startParts({ live, start = 'unknown', atMs }: Counted, excused: LiveState): DeadlinePart[] {
  const { anchorMs = 0 } = live;
  const note = `${STARTS[start]} ${timeWords(anchorMs, atMs)}.`;
  const parts: DeadlinePart[] = [{ kind: PART_OF_START[start] ?? 'clock_start', atMs: anchorMs, note }];
  const excusedMs = excused.anchorMs ?? anchorMs;
  if (excusedMs === anchorMs) return parts;
  const { excusedBeats: beats = 1 } = live;
  const what =
    beats === 1 ? 'A beat that Beatkeeper could not take' : `${beats} beats that Beatkeeper could not take`;
  const refused = `${what} showed that the job runs: the clock counts from ${timeWords(excusedMs, atMs)}.`;
  return [...parts, { kind: 'refused_beat', atMs: excusedMs, ms: excusedMs - anchorMs, note: refused }];
}

/** Interval or cron time, grace, and what a maintenance window adds. */
function clockParts(timing: Timing, live: LiveState, anchorMs: number): DeadlinePart[] {
  const { graceMs, schedule } = timing;
  const parts: DeadlinePart[] = [];
  const dueMs = schedule?.nextAfter(anchorMs);
  const intervalMs = intervalOf(timing, live);
  if (dueMs !== undefined) {
    const note = `The schedule is next due at ${timeWords(dueMs, anchorMs)}.`;
    parts.push({ kind: 'cron', atMs: dueMs, ms: dueMs - anchorMs, note });
  } else if (intervalMs !== undefined) {
    const isLearned = timing.intervalMs === undefined;
    const note = `The ${isLearned ? 'learned cadence' : 'interval'} is ${spanWords(intervalMs)}.`;
    parts.push({ kind: isLearned ? 'learned' : 'interval', ms: intervalMs, note });
  }
  parts.push({ kind: 'grace', ms: graceMs, note: `The grace is ${spanWords(graceMs)}.` });
  const plainMs = (dueMs ?? anchorMs + (intervalMs ?? 0)) + graceMs;
  const movedMs = deadlineAfter(timing, live, anchorMs) ?? plainMs;
  if (movedMs > plainMs) parts.push(maintenancePart(movedMs - plainMs, movedMs, anchorMs));
  return parts;
}

function maintenancePart(ms: number, endsMs: number, nearMs: number): DeadlinePart {
  const note = `A maintenance window moves the deadline to its end at ${timeWords(endsMs, nearMs)}.`;
  return { kind: 'maintenance', atMs: endsMs, ms, note };
}

/** A change of the monitor counts the deadline again, and leaves at least the grace from then (docs/contract/monitors.md). */
function changePart({ timing, changes, atMs }: State, ms: number, firstMs: number): DeadlinePart {
  const changedMs = changes.findLast((one) => one + timing.graceMs === firstMs);
  if (changedMs !== undefined) {
    const note = `The monitor was changed at ${timeWords(changedMs, atMs)}: the deadline is at least the grace from then.`;
    return { kind: 'grace', ms, note };
  }
  if (windowAt(timing, firstMs - 1)?.endsMs === firstMs) return maintenancePart(ms, firstMs, atMs);
  return { kind: 'clock_start', ms, note: 'A change of the monitor moved the deadline.' };
}

function missedPart({ schedule, missedBeatsToOpen }: Timing, index: number, ms: number): DeadlinePart {
  const note = `Of ${missedBeatsToOpen} deadlines in a row ${index} passed without a beat: the next one counts.`;
  return { kind: schedule ? 'cron' : 'interval', ms, missed: index, note };
}

function outagePart(
  { outages, operator, atMs }: State,
  live: LiveState,
  { ms, deadlineMs }: { ms: number; deadlineMs: number },
): DeadlinePart {
  const newest = { untilMs: deadlineMs, limit: 3 };
  const ofService = outagesIn(live, operator?.serviceOutages ?? outages, newest);
  const ofOperator = outagesIn(live, operator?.outages ?? [], newest);
  const spans = (named: readonly Outage[]) =>
    named.map(({ fromMs, toMs }) => `${timeWords(fromMs, atMs)} to ${timeWords(toMs, atMs)}`).join(', ');
  const away = [
    ...(ofService.length > 0 ? [`Beatkeeper was away (${spans(ofService)})`] : []),
    ...(ofOperator.length > 0 ? [`no operator led (${spans(ofOperator)})`] : []),
  ].join(', and ');
  const whose = ofOperator.length === 0 ? undefined : ofService.length === 0 ? 'operator' : 'both';
  return {
    ...{ kind: 'service_outage', ms, whose },
    atMs: outagesIn(live, outages, newest).at(-1)?.toMs,
    note: `${away.replace(/^n/, 'N')}, and a beat may have been lost.`,
  };
}

/** Whether a window runs. */
export function inMaintenance({ timing, atMs }: Pick<Situation, 'timing' | 'atMs'>): boolean {
  return timing.lifecycle === 'active' && windowAt(timing, atMs) !== undefined;
}
