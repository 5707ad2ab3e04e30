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
  /** The windows that begin after `endedMs`. */
  after(endedMs: number): Recurrence | undefined;
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
const MOST_JOINED = 200;

export function inWindow(window: Window | undefined, atMs: number): boolean {
  return window !== undefined && window.startsMs <= atMs && atMs < window.endsMs;
}

/** The window at `atMs`, joined with those that it overlaps or touches after that, or else the first one after it. */
export function windowFrom(
  { maintenance, recurrence }: Maintained,
  atMs: number,
): MaintenanceWindow | undefined {
  const own = hasOwnWindow({ maintenance }, atMs) ? maintenance : undefined;
  const next = recurrence?.windowFrom(atMs);
  if (!own || !next) return own ?? next;
  const [first, second] = own.startsMs <= next.startsMs ? [own, next] : [next, own];
  if (second.startsMs > first.endsMs) return first;
  const joined = { ...first, endsMs: Math.max(first.endsMs, second.endsMs) };
  // The end of the own window may lie in a further one of the schedules.
  const after = recurrence?.windowFrom(joined.endsMs);
  return after && after.startsMs <= joined.endsMs ? { ...joined, endsMs: after.endsMs } : joined;
}

/** A window that a person has set runs or comes: who ends the maintenance ends that one, and else the one of a schedule. */
export function hasOwnWindow({ maintenance }: Pick<Maintained, 'maintenance'>, atMs: number): boolean {
  return maintenance !== undefined && maintenance.endsMs > atMs;
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

/**
 * The windows of stored schedules. `endedMs`: a person has ended what ran then, so that windows that had begun are over.
 * A schedule whose time zone this build does not know any more makes no window.
 */
export function recurrenceOf(
  schedules: readonly MaintenanceSchedule[] | undefined,
  endedMs = Number.NEGATIVE_INFINITY,
): Recurrence | undefined {
  if (!schedules || schedules.length === 0) return undefined;
  let series: Series[] | undefined;
  let known: { fromMs: number; window: MaintenanceWindow | undefined } | undefined;
  return {
    windowFrom(atMs) {
      // Most callers ask about moments close to each other.
      if (known && known.fromMs <= atMs && (!known.window || atMs < known.window.endsMs)) return known.window;
      series ??= schedules.flatMap(compile);
      known = { fromMs: atMs, window: findWindow(series, atMs, endedMs) };
      return known.window;
    },
    after: (ms) => recurrenceOf(schedules, ms),
  };
}

/** Whether windows of a schedule follow each other without a break for as long as anybody looks. Throws `ScheduleError`. */
export function isEndless({ durationSeconds, ...spec }: MaintenanceSchedule): boolean {
  const series = { schedule: compileSchedule(spec), lengthMs: durationSeconds * 1_000 };
  const firstMs = series.schedule.nextAfter(0);
  return firstMs !== undefined && join([series], { startsMs: firstMs, endsMs: firstMs }).isCut;
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

function findWindow(series: readonly Series[], atMs: number, endedMs: number): MaintenanceWindow | undefined {
  let first: MaintenanceWindow | undefined;
  for (const { schedule, lengthMs, reason } of series) {
    // The earliest one that is not over at `atMs`.
    const startsMs = schedule.nextAfter(Math.max(atMs - lengthMs, endedMs));
    if (startsMs === undefined || (first && first.startsMs <= startsMs)) continue;
    first = { startsMs, endsMs: startsMs + lengthMs, reason };
  }
  return first && join(series, first).window;
}

/** A window with all that it overlaps or touches after its start. `isCut`: there may be more. */
function join(
  series: readonly Series[],
  window: MaintenanceWindow,
): { window: MaintenanceWindow; isCut: boolean } {
  let { endsMs } = window;
  const lastMs = series.map(() => window.startsMs - 1);
  for (let joined = 0; joined < MOST_JOINED; ) {
    const before = joined;
    for (const [index, { schedule, lengthMs }] of series.entries()) {
      const startsMs = schedule.nextAfter(lastMs[index] ?? endsMs);
      if (startsMs === undefined || startsMs > endsMs) continue;
      lastMs[index] = startsMs;
      endsMs = Math.max(endsMs, startsMs + lengthMs);
      joined += 1;
    }
    if (joined === before) return { window: { ...window, endsMs }, isCut: false };
  }
  return { window: { ...window, endsMs }, isCut: true };
}
