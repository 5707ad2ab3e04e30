// How long a monitor may be silent: its deadlines, moved by outages of the service and by beats that the service could
// not take (docs/contract/deadlines.md). Pure. Nothing is remembered of an outage: each call counts all outages since the
// silence began, so an outage that becomes known late, or becomes longer, counts as well.
import { deadlineAfter, intervalOf, outOfWindow, startClock } from './deadline.ts';
import type { LiveState, OpenRun, Outage, Timing } from './monitor.ts';

/** Oldest first and disjoint: spans that overlap or touch are one. */
export function mergeOutages(outages: readonly Outage[]): Outage[] {
  const merged: Outage[] = [];
  for (const { fromMs, toMs } of [...outages].sort((a, b) => a.fromMs - b.fromMs)) {
    const last = merged.at(-1);
    if (last && fromMs <= last.toMs) last.toMs = Math.max(last.toMs, toMs);
    else merged.push({ fromMs, toMs });
  }
  return merged;
}

/**
 * A beat that the service could not take shows that the job ran: the running clock counts from its arrival. It begins no
 * clock and recovers nothing.
 */
export function applyExcuse(timing: Timing, live: LiveState): LiveState {
  const { excusedMs, anchorMs = Number.NEGATIVE_INFINITY, deadlineMs } = live;
  if (deadlineMs === undefined || excusedMs === undefined || excusedMs <= anchorMs) return live;
  const excused = startClock(timing, live, excusedMs);
  // A change of the configuration may have given the clock a later end.
  const latestMs = Math.max(excused.deadlineMs ?? 0, live.unmovedMs ?? deadlineMs);
  return excused.deadlineMs === undefined ? excused : { ...excused, deadlineMs: latestMs };
}

/**
 * The deadlines of the running silence, `missedBeatsToOpen` of them; the last opens the incident. Empty while none runs.
 * `outages` as `mergeOutages` returns them.
 *
 * An outage may have swallowed a beat, and the sender's next one comes up to interval plus grace after the outage: then
 * the clock counts from the outage's end. That happens once in a silence, at the last outage that began before the
 * incident would open anyway. Each other outage moves the deadlines by its length. So a job that lost one beat does not
 * alert, and one that is dead is found however often the service restarts.
 */
export function deadlinesOf(timing: Timing, live: LiveState, outages: readonly Outage[]): number[] {
  const firstMs = live.unmovedMs ?? live.deadlineMs;
  if (firstMs === undefined) return [];
  const sinceMs = live.anchorMs ?? firstMs;
  const met = outages
    .filter(({ toMs }) => toMs > sinceMs)
    .map(({ fromMs, toMs }) => ({ fromMs: Math.max(fromMs, sinceMs), toMs }));
  const plain = countThrough(timing, live, firstMs, met);
  const last = met[plain.moved - 1];
  const restartMs = last && deadlineAfter(timing, live, last.toMs);
  if (restartMs === undefined) return plain.deadlines;
  const restarted = countThrough(timing, live, restartMs, met.slice(plain.moved)).deadlines;
  const isLater = (restarted.at(-1) ?? 0) > (plain.deadlines.at(-1) ?? 0);
  return isLater ? restarted : plain.deadlines;
}

/** The deadlines from `firstMs` on, each moved by the outages that began before it; `moved`: how many outages did. */
function countThrough(
  timing: Timing,
  live: LiveState,
  firstMs: number,
  outages: readonly Outage[],
): { deadlines: number[]; moved: number } {
  const deadlines: number[] = [];
  let moved = 0;
  let dueMs: number | undefined = outOfWindow(firstMs, timing.maintenance);
  while (dueMs !== undefined && deadlines.length < timing.missedBeatsToOpen) {
    for (let next = outages[moved]; next && next.fromMs < dueMs; next = outages[moved]) {
      dueMs = outOfWindow(dueMs + next.toMs - next.fromMs, timing.maintenance);
      moved += 1;
    }
    deadlines.push(dueMs);
    dueMs = followingDeadline(timing, live, dueMs);
  }
  return { deadlines, moved };
}

/** Each further interval without a beat counts as one more miss. */
function followingDeadline(timing: Timing, live: LiveState, deadlineMs: number): number | undefined {
  const dueMs = deadlineMs - timing.graceMs;
  const interval = intervalOf(timing, live);
  const next = timing.schedule ? timing.schedule.nextAfter(dueMs) : interval && dueMs + interval;
  return next === undefined ? undefined : outOfWindow(next + timing.graceMs, timing.maintenance);
}

/**
 * The outages, and the span of beats that the service could not take, that lie in a silence which ended at `untilMs`.
 * Oldest first.
 */
export function outagesIn(
  live: LiveState,
  outages: readonly Outage[],
  untilMs: number,
): (Outage & { refusedBeats?: number })[] {
  const { anchorMs = untilMs, excusedMs, excusedFromMs = excusedMs, excusedBeats } = live;
  const met = outages.filter(({ fromMs, toMs }) => toMs > anchorMs && fromMs < untilMs);
  if (excusedMs === undefined || excusedFromMs === undefined || excusedMs < anchorMs) return met;
  return [{ fromMs: excusedFromMs, toMs: excusedMs, refusedBeats: excusedBeats }, ...met];
}

/** Whether the end of a run may have been lost: it overlaps an outage, or the service refused beats while it ran. */
export function mayHaveLostEnd(
  { startedMs, dueMs = startedMs }: OpenRun,
  live: LiveState,
  outages: readonly Outage[],
): boolean {
  const { excusedMs } = live;
  if (excusedMs !== undefined && excusedMs >= startedMs) return true;
  return outages.some(({ fromMs, toMs }) => toMs > startedMs && fromMs < dueMs);
}
