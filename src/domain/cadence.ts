// Learned cadence: the interval of a monitor that states none, from the gaps between its successes
// (docs/contract/deadlines.md).

export const GAPS_KEPT = 20;
/** Five beats have four gaps between them. */
export const GAPS_TO_LEARN = 4;
/** In percent. */
export const LEARNED_PERCENTILE = 95;

export interface Cadence {
  gaps: number[];
  /** Undefined while learning. */
  cadenceMs?: number;
}

/**
 * Adds a gap. From five beats on, the cadence is the 95th percentile (nearest rank) of the last 20 gaps, in whole
 * seconds like configured intervals.
 */
export function learnGap(gaps: readonly number[], gapMs: number, minimumMs: number): Cadence {
  const kept = [...gaps, Math.min(gapMs, 2_147_483_647)].slice(-GAPS_KEPT);
  if (kept.length < GAPS_TO_LEARN) return { gaps: kept };
  const sorted = [...kept].sort((a, b) => a - b);
  const rank = Math.ceil((sorted.length * LEARNED_PERCENTILE) / 100) - 1;
  const seconds = Math.ceil((sorted[rank] ?? minimumMs) / 1000);
  return { gaps: kept, cadenceMs: Math.max(seconds * 1000, minimumMs) };
}
