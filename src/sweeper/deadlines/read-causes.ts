// Reads, for the monitors of a batch whose held alerts are due, which of the monitors that they depend on are or were down. A batch
// without such monitors costs no statement.
import { CauseSearch } from '../../domain/causes.ts';
import type { Causes } from '../../domain/held-alerts.ts';
import type { Incident } from '../../domain/incident.ts';
import { type Dependent, findDependencies, findEnds } from '../../store/monitors/dependencies.ts';
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
  const due = rows.filter(({ live: { holdMs } }) => holdMs !== undefined && holdMs <= nowMs);
  if (due.length === 0) return new Map();
  const dependents = due.flatMap(({ monitorKey }): Dependent[] => {
    const monitor = monitors.get(monitorKey);
    return monitor ? [{ ...monitor, dependsOn: monitor.timing.dependsOn ?? [] }] : [];
  });
  const found = await findDependencies(tx, dependents, nowMs);
  const suppressors = due.flatMap(({ projectId, monitorKey }) =>
    (incidents.get(monitorKey) ?? []).flatMap(({ suppressedBy }) =>
      suppressedBy ? [{ projectId, incidentId: suppressedBy.incidentId }] : [],
    ),
  );
  const ended = await findEnds(tx, suppressors);
  const placeOf = ({ projectId, jurisdiction }: { projectId: string; jurisdiction: string }) =>
    `${projectId} ${jurisdiction}`;
  const places = Map.groupBy(found, placeOf);
  const searches = new Map(
    [...places].map(([place, known]) => [
      place,
      new CauseSearch(new Map(known.map((dependency) => [dependency.monitorId, dependency]))),
    ]),
  );
  const nothing = new CauseSearch(new Map());
  return new Map(
    dependents.map((dependent) => {
      const search = searches.get(placeOf(dependent)) ?? nothing;
      return [dependent.monitorKey, { ...search.causesOf(dependent.dependsOn), ended }];
    }),
  );
}

/** The first end of a cause: outages before it do not matter to what is held. Infinity where there is none. */
export function firstEnd(causes: ReadonlyMap<string, Causes>): number {
  const ends = [...causes.values()].flatMap(({ last, ended }) => [
    ...(last ? [last.endedMs] : []),
    ...ended.values(),
  ]);
  return ends.reduce((first, endedMs) => Math.min(first, endedMs), Number.POSITIVE_INFINITY);
}
