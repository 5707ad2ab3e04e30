// How long a monitor may be silent: its deadlines, moved by outages of the service and by beats that the service could
// not take (docs/contract/deadlines.md). Pure. Nothing is remembered of an outage: each call counts all outages since the
// silence began, so an outage that becomes known late, or becomes longer, counts as well.
//
// `outages` are everywhere as `mergeOutages` returns them. There may be thousands, for each of thousands of monitors: no
// function copies them, and none looks at those before the silence.
import { deadlineAfter, intervalOf, startClock } from './deadline.ts';
import { outOfWindow } from './maintenance.ts';
import type { LiveState, Outage, Timing } from './monitor.ts';

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

/** The index of the first outage that ends after `atMs`. */
function findFirstAfter(outages: readonly Outage[], atMs: number): number {
  let [low, high] = [0, outages.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((outages[middle]?.toMs ?? atMs) > atMs) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * A refused beat may be newer than the moment of a wake, which was read before the row's lock. One that is further ahead
 * was refused before the database's clock was set back, and would put off the deadline until that time comes again.
 */
const MOST_AHEAD_MS = 60_000;
const NO_EXCUSE = { excusedFromMs: undefined, excusedMs: undefined, excusedBeats: undefined };

/**
 * A beat that the service could not take shows that the job ran: the running clock counts from its arrival. It begins no
 * clock and recovers nothing.
 */
export function applyExcuse(timing: Timing, live: LiveState, nowMs: number): LiveState {
  const { excusedMs, anchorMs = Number.NEGATIVE_INFINITY, deadlineMs } = live;
  if (excusedMs === undefined) return live;
  if (excusedMs > nowMs + MOST_AHEAD_MS) return { ...live, ...NO_EXCUSE };
  if (deadlineMs === undefined || excusedMs <= anchorMs) return live;
  const excused = startClock(timing, live, excusedMs);
  // A change of the configuration may have given the clock a later end.
  const latestMs = Math.max(excused.deadlineMs ?? 0, live.unmovedMs ?? deadlineMs);
  return excused.deadlineMs === undefined ? excused : { ...excused, deadlineMs: latestMs };
}

/** The first deadline of the running silence, before any outage moved it. Undefined while no clock runs. */
export function firstDeadline(timing: Timing, live: LiveState): number | undefined {
  const firstMs = live.unmovedMs ?? live.deadlineMs;
  return firstMs === undefined ? undefined : outOfWindow(firstMs, timing);
}

/**
 * The deadlines of the running silence, `missedBeatsToOpen` of them; the last opens the incident. Empty while none runs.
 *
 * An outage may have swallowed a beat, and the sender's next one comes up to interval plus grace after the outage: then
 * the clock counts from the outage's end. That happens once in a silence, at the last outage that began before the
 * incident would open anyway. Each other outage moves the deadlines by its length. So a job that lost one beat does not
 * alert, and one that is dead is found however often the service restarts.
 */
export function deadlinesOf(timing: Timing, live: LiveState, outages: readonly Outage[]): number[] {
  const firstMs = firstDeadline(timing, live);
  if (firstMs === undefined) return [];
  const anchorMs = live.anchorMs ?? firstMs;
  const begin = findFirstAfter(outages, anchorMs);
  const plain = countThrough(timing, live, { outages, anchorMs, firstMs, begin });
  const last = plain.end > begin ? outages[plain.end - 1] : undefined;
  const restartMs = last && deadlineAfter(timing, live, last.toMs);
  if (restartMs === undefined) return plain.deadlines;
  const restart = { outages, anchorMs, firstMs: restartMs, begin: plain.end };
  const { deadlines } = countThrough(timing, live, restart);
  const isLater = (deadlines.at(-1) ?? 0) > (plain.deadlines.at(-1) ?? 0);
  return isLater ? deadlines : plain.deadlines;
}

interface Count {
  outages: readonly Outage[];
  /** Only what lies after it counts. */
  anchorMs: number;
  firstMs: number;
  /** The index of the first outage that counts. */
  begin: number;
}

/** The deadlines from `firstMs` on, each moved by the outages that began before it; `end`: the index after the last. */
function countThrough(
  timing: Timing,
  live: LiveState,
  { outages, anchorMs, firstMs, begin }: Count,
): { deadlines: number[]; end: number } {
  const deadlines: number[] = [];
  let end = begin;
  let dueMs: number | undefined = firstMs;
  while (dueMs !== undefined && deadlines.length < timing.missedBeatsToOpen) {
    for (let next = outages[end]; next && next.fromMs < dueMs; next = outages[end]) {
      const lengthMs = next.toMs - Math.max(next.fromMs, anchorMs);
      dueMs = outOfWindow(dueMs + lengthMs, timing);
      end += 1;
    }
    deadlines.push(dueMs);
    dueMs = followingDeadline(timing, live, dueMs);
  }
  return { deadlines, end };
}

/** Each further interval without a beat counts as one more miss. */
function followingDeadline(timing: Timing, live: LiveState, deadlineMs: number): number | undefined {
  const dueMs = deadlineMs - timing.graceMs;
  const interval = intervalOf(timing, live);
  const next = timing.schedule ? timing.schedule.nextAfter(dueMs) : interval && dueMs + interval;
  return next === undefined ? undefined : outOfWindow(next + timing.graceMs, timing);
}

/** The newest outages, at most `limit`, of a silence that ended at `untilMs`. Oldest first. */
export function outagesIn(
  { anchorMs = Number.POSITIVE_INFINITY }: LiveState,
  outages: readonly Outage[],
  { untilMs, limit }: { untilMs: number; limit: number },
): readonly Outage[] {
  const begin = findFirstAfter(outages, anchorMs);
  let end = begin;
  while ((outages[end]?.fromMs ?? untilMs) < untilMs) end += 1;
  return outages.slice(Math.max(begin, end - limit), end);
}

/** The beats of the running silence that the service could not take, with the arrivals of the first and the newest. */
export function refusedIn({
  anchorMs = Number.POSITIVE_INFINITY,
  excusedMs,
  excusedFromMs = excusedMs,
  excusedBeats,
}: LiveState): (Outage & { refusedBeats?: number }) | undefined {
  if (excusedMs === undefined || excusedFromMs === undefined || excusedMs < anchorMs) return undefined;
  return { fromMs: excusedFromMs, toMs: excusedMs, refusedBeats: excusedBeats };
}

/** Whether a beat since `sinceMs` may be unknown: an outage, or a beat that the service could not take. */
export function mayHaveLostBeat(
  sinceMs: number,
  { excusedMs }: LiveState,
  outages: readonly Outage[],
): boolean {
  if (excusedMs !== undefined && excusedMs >= sinceMs) return true;
  return findFirstAfter(outages, sinceMs) < outages.length;
}

/** Whether the end of a run may have been lost: it overlaps an outage, or the service refused beats since it began. */
export function mayHaveLostEnd(
  { startedMs, dueMs }: { startedMs: number; dueMs: number },
  { excusedMs }: LiveState,
  outages: readonly Outage[],
): boolean {
  if (excusedMs !== undefined && excusedMs >= startedMs) return true;
  return (outages[findFirstAfter(outages, startedMs)]?.fromMs ?? dueMs) < dueMs;
}
