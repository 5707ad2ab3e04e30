// Which of the alerts of a batch name the causes that operators see: the first one at each endpoint. The others are decided about
// again, and their incidents are suppressed. A batch without such alerts costs no statement.
import { isOfAll } from '../../domain/operator-cause.ts';
import type { WakeResult } from '../../domain/wake.ts';
import { resolveTargets, type TargetResult } from '../../service/callbacks/callback-targets.ts';
import { claimCauses } from '../../store/monitors/seen-causes.ts';
import type { WatchedMonitor } from '../../store/monitors/watched-monitor.ts';
import type { Queryable } from '../../store/postgres/pool.ts';

const NIL_UUID = '00000000-0000-0000-0000-000000000000';

/** What was decided about a monitor, as if no other alert had named its cause. */
export interface Decided {
  monitor: WatchedMonitor;
  result: WakeResult;
  /** Decides again. `told`: incidents whose endpoint has had the alert that names their cause. */
  again: (told: ReadonlySet<string>) => WakeResult;
}

/** Where the alerts of those monitors go that have a cause, by monitor key. Changes `result` of those that name none. */
export async function nameCauses(
  tx: Queryable,
  decided: readonly Decided[],
): Promise<Map<string, TargetResult>> {
  const naming = decided.filter(({ result }) => result.transitions.some(({ cause }) => cause));
  if (naming.length === 0) return new Map();
  const targets = await resolveTargets(
    tx,
    naming.map(({ monitor }) => monitor),
  );
  const claims = naming.flatMap(({ monitor: { projectId, monitorKey }, result }) => {
    const found = targets.get(monitorKey);
    // An alert that goes nowhere tells nobody of the cause.
    if (!found || !('target' in found)) return [];
    return result.transitions.flatMap(({ cause, incident: { incidentId, openedMs } }) =>
      cause
        ? [
            {
              ...{ causeId: cause.causeId, endpoint: found.target, monitorKey, incidentId, openedMs },
              scopeId: isOfAll(cause) ? NIL_UUID : projectId,
            },
          ]
        : [],
    );
  });
  claims.sort((one, other) => one.openedMs - other.openedMs);
  const first = await claimCauses(tx, claims);
  const told = new Set(claims.map(({ incidentId }) => incidentId).filter((id) => !first.has(id)));
  for (const one of naming) {
    if (one.result.transitions.some(({ incident }) => told.has(incident.incidentId)))
      one.result = one.again(told);
  }
  return targets;
}
