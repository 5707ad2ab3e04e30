// The maintenance windows of a monitor: one that a person sets, and those of its maintenance schedules
// (docs/contract/monitors.md). Windows that overlap or touch are one. Pure.
import { compileSchedule, type Schedule, ScheduleError, type ScheduleSpec } from './schedule.ts';

/** Half-open: from `startsMs` until before `endsMs`. */
export interface Window {
  startsMs: number;
  endsMs: number;
}

export interface MaintenanceWindow extends Window {
  reason?: string;
}

/** A window at each time of a schedule. */
export interface MaintenanceSchedule extends ScheduleSpec {
  durationSeconds: number;
  reason?: string;
}

/** The windows of maintenance schedules, as far as one of them runs or comes. */
export interface Recurrence {
  /** The window at `atMs`, or else the first one after it. Undefined: none comes. */
  windowFrom(atMs: number): MaintenanceWindow | undefined;
  /** The windows that begin at `fromMs` or later. */
  since(fromMs: number): Recurrence | undefined;
}

/** Whatever may put a monitor in maintenance. */
export interface Maintained {
  /** That a person has set; it may be over. */
  maintenance?: MaintenanceWindow;
  recurrence?: Recurrence;
}

/**
 * So many windows of schedules are joined at most, for whoever reads many monitors. A maintenance that goes on after them is
 * looked at again at their end.
 */
export const MOST_JOINED = 16;

export function inWindow(window: Window | undefined, atMs: number): boolean {
  return window !== undefined && window.startsMs <= atMs && atMs < window.endsMs;
}

/** The window at `atMs`, joined with those that it overlaps or touches, or else the first one after it. */
export function windowFrom(
  { maintenance, recurrence }: Maintained,
  atMs: number,
): MaintenanceWindow | undefined {
  const own = maintenance && hasOwnWindow({ maintenance }, atMs) ? maintenance : undefined;
  const next = recurrence?.windowFrom(atMs);
  if (!own || !next) return own ?? next;
  const [first, second] = own.startsMs <= next.startsMs ? [own, next] : [next, own];
  if (second.startsMs > first.endsMs) return first;
  const joined = { ...first, endsMs: Math.max(first.endsMs, second.endsMs) };
  // The end of the own window may lie in a further one of the schedules.
  const after = recurrence?.windowFrom(joined.endsMs);
  return after && after.startsMs <= joined.endsMs ? { ...joined, endsMs: after.endsMs } : joined;
}

/** A window that a person has set runs or comes: who ends the maintenance ends that one, and else the one of schedules. */
export function hasOwnWindow({ maintenance }: Pick<Maintained, 'maintenance'>, atMs: number): boolean {
  return maintenance !== undefined && maintenance.endsMs > atMs;
}

/** From when on windows of schedules count after a person has ended the maintenance. A window that was set ends alone. */
export function recursAfterExit(
  { recursSinceMs }: { recursSinceMs?: number },
  maintained: Maintained,
  nowMs: number,
): number | undefined {
  return hasOwnWindow(maintained, nowMs) ? recursSinceMs : outOfWindow(nowMs, maintained);
}

/** Undefined: none runs at `atMs`. */
export function windowAt(maintained: Maintained, atMs: number): MaintenanceWindow | undefined {
  const window = windowFrom(maintained, atMs);
  return inWindow(window, atMs) ? window : undefined;
}

/** A moment inside a window moves to the end of the window. */
export function outOfWindow(atMs: number, maintained: Maintained): number {
  return windowAt(maintained, atMs)?.endsMs ?? atMs;
}

/** Whether a window runs at some moment from `fromMs` to `toMs`. */
export function crossesWindow(maintained: Maintained, fromMs: number, toMs: number): boolean {
  const window = windowFrom(maintained, fromMs);
  return window !== undefined && window.startsMs <= toMs;
}

/** Recurrences that are kept: all Monitors of a namespace may have the same schedules. */
const MOST_KEPT = 1_000;
const kept = new Map<string, Recurrence>();

/**
 * The windows of stored schedules that begin at `sinceMs` or later. A schedule whose time zone this build does not know any
 * more makes no window.
 */
export function recurrenceOf(
  schedules: readonly MaintenanceSchedule[] | undefined,
  sinceMs = Number.NEGATIVE_INFINITY,
): Recurrence | undefined {
  if (!schedules || schedules.length === 0) return undefined;
  const key = JSON.stringify([sinceMs, schedules]);
  let recurrence = kept.get(key);
  if (!recurrence) {
    recurrence = makeRecurrence(schedules, sinceMs);
    const [oldest] = kept.keys();
    if (oldest !== undefined && kept.size >= MOST_KEPT) kept.delete(oldest);
    kept.set(key, recurrence);
  }
  return recurrence;
}

function makeRecurrence(schedules: readonly MaintenanceSchedule[], sinceMs: number): Recurrence {
  let series: Series[] | undefined;
  // A beat asks about now and about its deadline.
  let known: Known[] = [];
  return {
    windowFrom(atMs) {
      const found = known.find(({ fromMs, window }) => fromMs <= atMs && (!window || atMs < window.endsMs));
      if (found) return found.window;
      series ??= schedules.flatMap(compile);
      const window = findWindow(series, atMs, sinceMs);
      known = [{ fromMs: Math.min(atMs, window?.startsMs ?? atMs), window }, ...known].slice(0, 2);
      return window;
    },
    since: (fromMs) => recurrenceOf(schedules, fromMs),
  };
}

/** The answer for each moment from `fromMs` to the end of the window. */
interface Known {
  fromMs: number;
  window: MaintenanceWindow | undefined;
}

/** Whether windows of these schedules follow each other without a break, more than MOST_JOINED. Throws `ScheduleError`. */
export function hasLongRow(schedules: readonly MaintenanceSchedule[]): boolean {
  const series = schedules.map(({ durationSeconds, ...spec }) => ({
    schedule: compileSchedule(spec),
    lengthMs: durationSeconds * 1_000,
  }));
  return series.some(({ schedule }) => {
    const firstMs = schedule.nextAfter(0);
    return firstMs !== undefined && joinLater(series, { startsMs: firstMs, endsMs: firstMs }).isCut;
  });
}

interface Series {
  schedule: Schedule;
  lengthMs: number;
  reason?: string;
}

function compile({ durationSeconds, reason, ...spec }: MaintenanceSchedule): Series[] {
  try {
    return [{ schedule: compileSchedule(spec), lengthMs: durationSeconds * 1_000, reason }];
  } catch (error) {
    if (error instanceof ScheduleError) return [];
    throw error;
  }
}

function findWindow(series: readonly Series[], atMs: number, sinceMs: number): MaintenanceWindow | undefined {
  const first = earliest(series, atMs, sinceMs);
  if (!first) return undefined;
  const begun = joinEarlier(series, first, sinceMs);
  return { ...begun, endsMs: joinLater(series, first).endsMs };
}

/** The one that begins first of those that are not over at `atMs`. */
function earliest(series: readonly Series[], atMs: number, sinceMs: number): MaintenanceWindow | undefined {
  let first: MaintenanceWindow | undefined;
  for (const { schedule, lengthMs, reason } of series) {
    const startsMs = schedule.nextAfter(Math.max(atMs - lengthMs, sinceMs - 1));
    if (startsMs === undefined || (first && first.startsMs <= startsMs)) continue;
    first = { startsMs, endsMs: startsMs + lengthMs, reason };
  }
  return first;
}

/** The first window of the row that leads to this one: those before it have ended at its start at the earliest. */
function joinEarlier(
  series: readonly Series[],
  window: MaintenanceWindow,
  sinceMs: number,
): MaintenanceWindow {
  let first = window;
  for (let joined = 0; joined < MOST_JOINED; joined += 1) {
    const before = earliest(series, first.startsMs - 1, sinceMs);
    if (!before || before.startsMs >= first.startsMs) return first;
    first = before;
  }
  return first;
}

/** The end of the row of windows that overlap or touch from this one on. `isCut`: there may be more. */
function joinLater(
  series: readonly Series[],
  { startsMs, endsMs }: Window,
): { endsMs: number; isCut: boolean } {
  let untilMs = endsMs;
  const lastMs = series.map(() => startsMs - 1);
  for (let joined = 0; joined < MOST_JOINED; ) {
    const before = joined;
    for (const [index, { schedule, lengthMs }] of series.entries()) {
      const nextMs = schedule.nextAfter(lastMs[index] ?? untilMs);
      if (nextMs === undefined || nextMs > untilMs) continue;
      lastMs[index] = nextMs;
      untilMs = Math.max(untilMs, nextMs + lengthMs);
      joined += 1;
    }
    if (joined === before) return { endsMs: untilMs, isCut: false };
  }
  return { endsMs: untilMs, isCut: true };
}
