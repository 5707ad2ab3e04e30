// Reads, for the monitors of a batch whose held alerts are due, which of the monitors that they depend on are down. A batch
// without such monitors costs no statement.
import type { Causes } from '../../domain/held-alerts.ts';
import type { Incident } from '../../domain/incident.ts';
import { findCauses, findEnds } from '../../store/monitors/dependencies.ts';
import type { LiveRow } from '../../store/monitors/live.ts';
import type { WatchedMonitor } from '../../store/monitors/watched-monitor.ts';
import type { Queryable } from '../../store/postgres/pool.ts';

interface Known {
  monitors: ReadonlyMap<string, WatchedMonitor>;
  /** Those that have not ended, by monitor key. */
  incidents: ReadonlyMap<string, readonly Incident[]>;
  nowMs: number;
}

/** By monitor key. */
export async function readCauses(
  tx: Queryable,
  rows: readonly LiveRow[],
  { monitors, incidents, nowMs }: Known,
): Promise<Map<string, Causes>> {
  const causes = new Map<string, Causes>();
  const due = rows.filter(({ live: { holdMs } }) => holdMs !== undefined && holdMs <= nowMs);
  for (const [projectId, own] of Map.groupBy(due, (row) => row.projectId)) {
    const dependents = own.flatMap(({ monitorKey }) => {
      const monitor = monitors.get(monitorKey);
      const dependsOn = monitor?.timing.dependsOn;
      return monitor && dependsOn ? [{ ...monitor, dependsOn }] : [];
    });
    const suppressors = own.flatMap(({ monitorKey }) =>
      (incidents.get(monitorKey) ?? []).flatMap(({ suppressedBy }) => suppressedBy?.incidentId ?? []),
    );
    const found = Map.groupBy(await findCauses(tx, dependents, nowMs), ({ monitorKey }) => monitorKey);
    const ended = await findEnds(tx, projectId, [...new Set(suppressors)]);
    for (const { monitorKey } of own) {
      const known = found.get(monitorKey) ?? [];
      const open = known.flatMap(({ cause }) => cause ?? []);
      causes.set(monitorKey, {
        down: open[0],
        open: new Set(open.map(({ incidentId }) => incidentId)),
        isUndecided: known.some(({ isUndecided }) => isUndecided),
        ended,
      });
    }
  }
  return causes;
}
