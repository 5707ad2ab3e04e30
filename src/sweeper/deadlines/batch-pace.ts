// How many due monitors one transaction wakes: as many as a moment allows, on a machine that may be slow, and fewer
// while a row at fault is isolated. Pure: (pace, event) -> pace. It neither claims nor measures.

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
  /** Every batch of the run was full. */
  | { type: 'filled'; durationMs: number }
  /** A batch found fewer rows than it may take: nothing is left. */
  | { type: 'drained' }
  /** A batch failed for a reason outside of its rows, perhaps because it took too long. */
  | { type: 'failed' }
  /** The database refused a batch of so many rows for what is in one of them. A row alone is out of the way after it. */
  | { type: 'refused'; rows: number };

const LARGEST_BATCH = 2_000;
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
      return { ...resize(pace, size * Math.min(HOLD_MS / event.durationMs, 2)), mode: 'draining' };
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
