// What the sweep of deadlines remembers between its runs: how far back a run searches for due monitors (its lookback), and
// how many of them one transaction wakes (its pace). Pure: (state, event, now) -> state. It neither reads nor measures.
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
  { backMs: 1_000, everyMs: 1_000 },
  { backMs: 100, everyMs: 0 },
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

/** Nothing is left up to the end of `span`. Without a horizon nothing was searched. */
export function advanceWatermark(state: LookbackState, { horizonMs, uptoMs }: DueSpan): LookbackState {
  return horizonMs === undefined ? state : { ...state, watermarkMs: uptoMs };
}

/** The moment after which a run searches; undefined: from the beginning. */
export function sinceMsOf({ watermarkMs }: LookbackState, { backMs }: Lookback): number | undefined {
  return backMs === undefined || watermarkMs === undefined ? undefined : watermarkMs - backMs;
}

export type BatchPace = {
  readonly largest: number;
  /** Rows that take about HOLD_MS. */
  readonly size: number;
} & (
  | {
      /** `polling`: each run first asks whether anything is due. `draining`: much is due, and nobody asks. */
      readonly mode: 'polling' | 'draining';
    }
  | {
      /** One batch at a time of at most `limit` rows, until the row at fault is alone. */
      readonly mode: 'isolating';
      readonly limit: number;
      /** The mode to go back to. */
      readonly resume: 'polling' | 'draining';
    }
);

export type BatchEvent =
  /** A batch was full. `limit`: what it could take, which other lanes may have changed since. */
  | { type: 'filled'; limit: number; durationMs: number }
  /** A batch found fewer rows than it may take: nothing is left. */
  | { type: 'drained' }
  /** A batch failed for a reason outside of its rows, perhaps because it took too long. */
  | { type: 'failed' }
  /** The database refused a batch of so many rows for what is in one of them. A row alone is out of the way after it. */
  | { type: 'refused'; rows: number };

const LARGEST_BATCH = 1_000;
/**
 * A batch locks its rows, and a beat of any of them waits, together with its whole ingest batch. Just after an outage
 * everything is due and every sender comes, on a machine that may be slow: a batch is as large as this time allows.
 */
const HOLD_MS = 500;
/** The first batch shows how fast the machine is. */
const FIRST_BATCH = 250;
const SMALLEST_BATCH = 50;

/** The pace of a sweep that has not run yet. */
export function firstPace(largest = LARGEST_BATCH): BatchPace {
  return { largest, size: Math.min(FIRST_BATCH, largest), mode: 'polling' };
}

/** Rows that the next batch may take. */
export function limitOf(pace: BatchPace): number {
  return pace.mode === 'isolating' ? pace.limit : pace.size;
}

export function nextPace(pace: BatchPace, event: BatchEvent): BatchPace {
  const { largest, size } = pace;
  const resume = pace.mode === 'isolating' ? pace.resume : pace.mode;
  switch (event.type) {
    case 'filled':
      if (pace.mode === 'isolating') {
        // The row at fault may be in an earlier batch. If the next batch meets it again, the limit is halved again.
        const limit = pace.limit * 2;
        if (limit < size) return { ...pace, limit, resume: 'draining' };
        return { largest, size, mode: 'draining' };
      }
      return { ...resize(pace, event.limit * Math.min(HOLD_MS / event.durationMs, 2)), mode: 'draining' };
    case 'drained':
      return { largest, size, mode: 'polling' };
    case 'failed':
      return { ...resize(pace, size / 4), mode: resume };
    case 'refused':
      if (event.rows === 1) return { largest, size, mode: resume };
      return { largest, size, mode: 'isolating', limit: Math.max(1, Math.floor(event.rows / 2)), resume };
  }
}

function resize({ largest }: BatchPace, wanted: number): { largest: number; size: number } {
  return { largest, size: Math.min(Math.max(Math.round(wanted), SMALLEST_BATCH), largest) };
}
