// Monitors that depend on others (docs/contract/incidents.md, "Dependencies"): bounds and words. What becomes of their alerts is
// decided in held-alerts.ts.

/** A chain has at most so many monitors. */
export const LONGEST_CHAIN = 8;
/** Of the monitors that depend on one no more are counted. */
export const MOST_COUNTED = 1000;

/** What the alert of a monitor says of those that depend on it. Undefined where none does. */
export function dependentsSentence(count: number | undefined): string | undefined {
  if (count === undefined || count === 0) return undefined;
  if (count === 1) return '1 more monitor depends on it.';
  return count < MOST_COUNTED
    ? `${count} more monitors depend on it.`
    : `${MOST_COUNTED} or more monitors depend on it.`;
}
