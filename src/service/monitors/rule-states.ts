// What the rules of monitors remember, for whoever judges their beats. What the live row has is a cache: what is missing, or
// belongs to another definition, is built from the monitor's past successes (docs/adr/0009).
import { STANDARD_RETENTION_MS } from '../../domain/retention.ts';
import { type CompiledRules, countLooks, keysRead } from '../../domain/rules/compile.ts';
import { HISTORY, type RuleStates, rebuildStates, staleMeasurements } from '../../domain/rules/state.ts';
import { decodeStates } from '../../domain/rules/stored-states.ts';
import { findPastSuccesses, type PastOf } from '../../store/beats/past-successes.ts';
import type { Queryable } from '../../store/postgres/pool.ts';

export interface RuledMonitor extends Omit<PastOf, 'read'> {
  rules: CompiledRules;
  /** Of its live row. */
  ruleStates?: string;
}

export interface LoadedStates {
  /** By monitor key, without stale ones. */
  states: Map<string, RuleStates>;
  /** Of the monitors whose states were built anew, by monitor key: of which measurements. Whoever writes should store them. */
  rebuilt: Map<string, readonly string[]>;
}

/**
 * One statement for all monitors whose states must be built, and none where there are no such. `nowMs`: the database's clock.
 * `mostLooks`: how many looks at values may be taken to build them. One monitor is always built; those past them are left out.
 */
export async function loadRuleStates(
  db: Queryable,
  monitors: readonly RuledMonitor[],
  { nowMs, mostLooks = Number.POSITIVE_INFINITY }: { nowMs: number; mostLooks?: number },
): Promise<LoadedStates> {
  const states = new Map<string, RuleStates>();
  const stale: StaleMonitor[] = [];
  let looks = 0;
  for (const monitor of monitors) {
    const known = decodeStates(monitor.rules, monitor.ruleStates);
    const keys = staleMeasurements(monitor.rules, known);
    if (keys.length === 0) states.set(monitor.monitorKey, known);
    else {
      looks += looksOf(monitor, keys);
      if (stale.length === 0 || looks <= mostLooks)
        stale.push({ ...monitor, known, keys, read: keysRead(monitor.rules, keys) });
    }
  }
  const pasts = await findPastSuccesses(db, stale, nowMs - STANDARD_RETENTION_MS);
  for (const { monitorKey, rules, known, keys } of stale) {
    states.set(monitorKey, rebuildStates(rules, known, keys, pasts.get(monitorKey) ?? []));
  }
  return { states, rebuilt: new Map(stale.map(({ monitorKey, keys }) => [monitorKey, keys])) };
}

interface StaleMonitor extends RuledMonitor, PastOf {
  known: RuleStates;
  /** The measurements whose states are built. */
  keys: string[];
}

function looksOf({ rules, lastSequence }: RuledMonitor, keys: readonly string[]): number {
  const measurements = keys.flatMap((key) => rules.measurements.get(key) ?? []);
  return countLooks(measurements) * Math.min(HISTORY, lastSequence);
}
