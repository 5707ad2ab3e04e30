// Reads, for the monitors of a batch whose held alerts are due, which of the monitors that they depend on are or were down, and what
// their operators see. A batch without such monitors costs no statement.
import { CauseSearch } from '../../domain/causes.ts';
import type { Causes, SeenCause } from '../../domain/held-alerts.ts';
import type { Incident } from '../../domain/incident.ts';
import { isOfAll } from '../../domain/operator-cause.ts';
import { type Dependent, findDependencies, findEnds } from '../../store/monitors/dependencies.ts';
import type { LiveRow } from '../../store/monitors/live.ts';
import { findSeenCauses } from '../../store/monitors/seen-causes.ts';
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
      suppressedBy && 'incidentId' in suppressedBy
        ? [{ projectId, incidentId: suppressedBy.incidentId }]
        : [],
    ),
  );
  const ended = await findEnds(tx, suppressors);
  const seen = await readSeen(tx, due, monitors);
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
      const { monitorKey } = dependent;
      return [monitorKey, { ...search.causesOf(dependent.dependsOn), ended, seen: seen.get(monitorKey) }];
    }),
  );
}

/** What operators see at the monitors that they beat, by monitor key. */
async function readSeen(
  tx: Queryable,
  due: readonly LiveRow[],
  monitors: Known['monitors'],
): Promise<Map<string, SeenCause>> {
  const beaten = due.flatMap(({ projectId, monitorKey }) => {
    const beatenBy = monitors.get(monitorKey)?.beatenBy;
    return beatenBy === undefined ? [] : [{ projectId, monitorKey, beatenBy }];
  });
  const found = await findSeenCauses(tx, beaten);
  return new Map(
    [...found].map(([monitorKey, { monitorsOfProject, monitors: ofAll, ...cause }]) => {
      // Who gets alerts of one project hears of no other one.
      const isShared = isOfAll(cause) && monitors.get(monitorKey)?.binding.kind === 'organization_default';
      return [monitorKey, { ...cause, monitors: isShared ? ofAll : monitorsOfProject }];
    }),
  );
}

/** The first end of a cause: outages before it do not matter to what is held. Infinity where there is none. */
export function firstEnd(causes: ReadonlyMap<string, Causes>): number {
  const ends = [...causes.values()].flatMap(({ last, ended, seen }) => [
    ...(last ? [last.endedMs] : []),
    ...(seen?.endedMs === undefined ? [] : [seen.endedMs]),
    ...ended.values(),
  ]);
  return ends.reduce((first, endedMs) => Math.min(first, endedMs), Number.POSITIVE_INFINITY);
}
