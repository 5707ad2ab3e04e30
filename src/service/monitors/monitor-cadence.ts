// The shortest interval that a plan allows (docs/contract/organization.md, minimum_interval_seconds).
import { type Plan, planLimitReached } from '../../domain/plan.ts';
import { compileSchedule, type ScheduleSpec } from '../../domain/schedule.ts';

/** The floor of the contract. A development run lowers it; a plan with a higher floor keeps its own. */
const CONTRACT_FLOOR_SECONDS = 60;
/** How many occurrences the shortest gap is searched in: more than a working day of every five minutes. */
const OCCURRENCES = 128;

export interface Cadence {
  intervalSeconds?: number;
  schedule?: ScheduleSpec;
}

/**
 * Throws `plan_limit_reached` for an interval, or a gap of a schedule, below the plan's minimum. `prefix` is the path
 * of the object that states the cadence, with a dot at its end.
 */
export function requireAllowedCadence(plan: Plan, cadence: Cadence, nowMs: number, prefix = ''): void {
  const limit = plan.minimumIntervalSeconds;
  // The contract has checked the input against its floor.
  if (limit <= CONTRACT_FLOOR_SECONDS) return;
  const attempted = cadence.intervalSeconds ?? shortestGapSeconds(cadence.schedule, limit, nowMs);
  if (attempted === undefined || attempted >= limit) return;
  const field = cadence.intervalSeconds === undefined ? 'schedule' : 'intervalSeconds';
  throw planLimitReached(plan, { dimension: 'minimum_interval_seconds', limit, attempted }, prefix + field);
}

function shortestGapSeconds(spec: ScheduleSpec | undefined, enough: number, nowMs: number) {
  if (!spec) return undefined;
  const schedule = compileSchedule(spec);
  let shortest: number | undefined;
  let previous = schedule.nextAfter(nowMs);
  for (let count = 1; count < OCCURRENCES && previous !== undefined; count += 1) {
    const next = schedule.nextAfter(previous);
    if (next === undefined) break;
    const gap = (next - previous) / 1000;
    if (shortest === undefined || gap < shortest) shortest = gap;
    if (shortest < enough) break;
    previous = next;
  }
  return shortest;
}
