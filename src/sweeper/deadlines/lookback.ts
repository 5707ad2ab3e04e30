// How far behind the last run a run looks for due monitors. Pure: times are passed in. It reads no database.
import type { DueSpan } from '../../store/monitors/due-monitors.ts';

/** `backMs`: from that long before the watermark on; undefined: from the beginning. */
export interface Lookback {
  readonly backMs?: number;
}

export interface LookbackState {
  /** Nothing is left that was due up to this moment, ms of the database's clock. Undefined before the first run. */
  readonly watermarkMs?: number;
  /** When each of LOOKBACKS was begun last, on the clock of `performance.now()`. */
  readonly begunAt: readonly number[];
  /** The lookback to continue: something was left in it. */
  readonly unfinished?: Lookback;
}

/**
 * The longest first, and how often each is due. A longer lookback finds what a shorter one could not see: a row that
 * somebody held for a moment, or a moment that was past when it was committed. Long lookbacks are expensive while an old
 * snapshot elsewhere keeps the index entries that beats have left (docs/adr/0002).
 */
const LOOKBACKS = [
  { backMs: undefined, everyMs: 60_000 },
  { backMs: 30_000, everyMs: 5_000 },
  { backMs: 1_000, everyMs: 0 },
] as const;

/** Every lookback is due. */
export const FIRST_LOOKBACK: LookbackState = { begunAt: LOOKBACKS.map(() => Number.NEGATIVE_INFINITY) };

/**
 * The lookback of the run that begins now. The returned state no longer holds an unfinished one: a long lookback that
 * fails must not keep the short ones from their turn.
 */
export function beginLookback(
  { unfinished, ...state }: LookbackState,
  now: number,
): { lookback: Lookback; state: LookbackState } {
  if (unfinished) return { lookback: unfinished, state };
  const due = LOOKBACKS.findIndex(({ everyMs }, index) => now - (state.begunAt[index] ?? 0) >= everyMs);
  // A lookback covers the shorter ones.
  const begunAt = state.begunAt.map((at, index) => (index >= due ? now : at));
  return { lookback: { backMs: LOOKBACKS[due]?.backMs }, state: { ...state, begunAt } };
}

/** Something is left in the lookback: the next run continues it. */
export function leaveUnfinished(state: LookbackState, lookback: Lookback): LookbackState {
  return { ...state, unfinished: lookback };
}

/** Nothing is left up to the end of `span`. Without a horizon nothing was looked at. */
export function advanceWatermark(state: LookbackState, { horizonMs, uptoMs }: DueSpan): LookbackState {
  return horizonMs === undefined ? state : { ...state, watermarkMs: uptoMs };
}

/** The moment after which a run looks; undefined: from the beginning. */
export function sinceMsOf({ watermarkMs }: LookbackState, { backMs }: Lookback): number | undefined {
  return backMs === undefined || watermarkMs === undefined ? undefined : watermarkMs - backMs;
}
