// Which of the claimed monitors a batch wakes. Most have an incident at most, and those with rules may have hundreds: the others
// must not wait for them, neither the deadlines in this batch nor the beats that meet its locks.
import type { LiveRow } from '../../store/monitors/live.ts';

/** Incidents that a batch reads and changes in about the time that it may hold its locks (sweep-state.ts). */
const MOST_INCIDENTS = 4_000;
/** Characters of a violated rule in the text of its state, at least. */
const VIOLATION_LENGTH = 64;
/** Those that are left come again after what is due now. */
const LEFT_MS = 100;

/** `left`: as they are to be written. One monitor is always taken. `uptoMs`: what is due later is not looked at. */
export function splitBatch(
  rows: readonly LiveRow[],
  { nowMs, uptoMs }: { nowMs: number; uptoMs: number },
): { taken: LiveRow[]; left: LiveRow[] } {
  const taken: LiveRow[] = [];
  const left: LiveRow[] = [];
  let incidents = 0;
  for (const row of rows) {
    const most = mostIncidents(row, uptoMs);
    // An ordinary monitor fits into each batch.
    const isHeavy = most > MOST_INCIDENTS / 100;
    if (isHeavy && taken.length > 0 && incidents + most > MOST_INCIDENTS) {
      left.push({ ...row, live: { ...row.live, wakeMs: nowMs + LEFT_MS } });
    } else {
      taken.push(row);
      incidents += most;
    }
  }
  return { taken, left };
}

/** How many incidents a wake may read or change. */
function mostIncidents({ live }: LiveRow, uptoMs: number): number {
  const { openIncidents, escalatesMs = Number.POSITIVE_INFINITY, ruleStates = '' } = live;
  const violated = escalatesMs <= uptoMs ? Math.floor(ruleStates.length / VIOLATION_LENGTH) : 0;
  return Math.max(openIncidents, violated);
}
