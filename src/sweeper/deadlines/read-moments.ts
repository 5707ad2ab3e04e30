// What decides about the monitors of a batch beside themselves: the clock, the horizon, and the outages. For those that operators
// beat, the signs of these operators too.
import { momentOf } from '../../domain/operator-sign.ts';
import { mergeOutages } from '../../domain/silence.ts';
import type { Moment } from '../../domain/wake.ts';
import type { WatchedMonitor } from '../../store/monitors/watched-monitor.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { type OperatorRef, readOperators } from '../../store/upkeep/operator-signs.ts';
import { readOutages } from '../../store/upkeep/service-clock.ts';

/**
 * What decides about each of the monitors. Those that operators beat cost one round trip more for all of them together, and the
 * others none.
 */
export async function readMoments(
  tx: Queryable,
  { nowMs, uptoMs }: { nowMs: number; uptoMs: number },
  { monitors, sinceMs }: { monitors: ReadonlyMap<string, WatchedMonitor>; sinceMs: number },
): Promise<(monitor: WatchedMonitor | undefined) => Moment> {
  // Read after the horizon: an outage commits together with the horizon behind it. So does that of an operator with its sign.
  const outages = mergeOutages(await readOutages(tx, sinceMs));
  const moment: Moment = { nowMs, horizonMs: uptoMs, outages };
  const operators = await readOperators(tx, [...monitors.values()].flatMap(operatorOf), sinceMs);
  const moments = new Map<object, Moment>();
  return (monitor) => {
    const [operator] = monitor ? operatorOf(monitor) : [];
    if (!monitor || !operator) return moment;
    const signs = operators.of(operator, monitor);
    const known = moments.get(signs) ?? momentOf(moment, signs);
    moments.set(signs, known);
    return known;
  };
}

function operatorOf({ organizationId, beatenBy }: WatchedMonitor): OperatorRef[] {
  return beatenBy === undefined ? [] : [{ organizationId, operatorId: beatenBy }];
}
