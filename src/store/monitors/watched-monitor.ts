// What beats, deadlines and alerts need of a monitor's configuration: one loader for ingest, sweeper and api. It only
// reads; monitors.ts writes configurations.

import {
  type Jurisdiction,
  type MonitorConfiguration,
  type Timing,
  type TimingConfiguration,
  type TimingState,
  toTiming,
} from '../../domain/monitor.ts';
import type { MonitorOrigin } from '../../domain/origin.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { inShard } from '../postgres/engine.ts';
import type { Queryable } from '../postgres/pool.ts';
import { MONITOR_REF, type MonitorRef } from './live.ts';
import {
  BEATEN_BY,
  CHANGEABLE,
  DECLARED_BY,
  JOIN_TENANT,
  LABELED,
  MAINTENANCE,
  MONITOR_ID,
  type StoredBinding,
  TENANT,
  type Tenant,
  TIMING,
} from './monitor-record.ts';

export interface WatchedMonitor extends MonitorRef, Tenant {
  /** A live row with another version was computed under another configuration. */
  configurationVersion: number;
  timing: Timing;
  monitorId: string;
  name: string;
  labels: Record<string, string>;
  jurisdiction: Jurisdiction;
  binding: StoredBinding;
  /** Undefined where it declares none: then there are no rules, and a beat touches nothing of their states (docs/adr/0009). */
  measurements?: MonitorConfiguration['measurements'];
  /** The operator that sends its beats. */
  beatenBy?: string;
  /** As it was read: a monitor that is kept does not know whether its object is gone. */
  declaredBy?: Omit<MonitorOrigin, 'ownedFields'>;
}

type Watched = Omit<WatchedMonitor, 'timing'> & {
  timing: Omit<TimingState, 'beatenBy'> & { configuration: TimingConfiguration };
};

const WATCHED: Columns<Watched> = {
  ...MONITOR_ID,
  ...LABELED,
  configurationVersion: CHANGEABLE.configurationVersion,
  timing: { configuration: TIMING, lifecycle: CHANGEABLE.lifecycle, ...MAINTENANCE },
  binding: CHANGEABLE.binding,
  measurements: column.computed('measurements', "nullif(m.measurements, '{}')"),
  beatenBy: BEATEN_BY,
  declaredBy: column.optional(DECLARED_BY),
  ...TENANT,
};
const toWatched = rowReader(WATCHED);

/** For statements of other files that join `monitors` as `m`: the columns of a watched monitor. `JOIN_TENANT` follows. */
export const WATCHED_COLUMNS = sql.select(WATCHED, 'm');

/** Turns a row that was selected with WATCHED_COLUMNS into a WatchedMonitor. */
export function toWatchedMonitor(row: object, minimumIntervalMs: number): WatchedMonitor {
  const watched = toWatched(row);
  const { timing } = watched;
  return {
    ...watched,
    timing: toTiming(timing.configuration, { ...timing, beatenBy: watched.beatenBy }, minimumIntervalMs),
  };
}

const LOAD = statement(
  'load-watched-monitors',
  (bind: Bind<readonly MonitorRef[]>) => `select ${WATCHED_COLUMNS}
    from ${sql.unnest(MONITOR_REF, bind, (refs) => refs)}
    join monitors m on m.project_id = v.project_id and m.monitor_key = v.monitor_key${inShard('m', bind, (refs) => refs)}
    ${JOIN_TENANT}`,
);

/**
 * Loads the monitors of `refs` in one query, by monitor key. Leaves out monitors that don't exist.
 * `minimumIntervalMs`: the installation's floor of a learned cadence (`ServiceContext.minimumIntervalSeconds`).
 */
export async function loadWatchedMonitors(
  db: Queryable,
  refs: readonly MonitorRef[],
  minimumIntervalMs: number,
): Promise<Map<string, WatchedMonitor>> {
  if (refs.length === 0) return new Map();
  const { rows } = await db.query(LOAD(refs));
  const monitors = rows.map((row) => toWatchedMonitor(row, minimumIntervalMs));
  return new Map(monitors.map((monitor) => [monitor.monitorKey, monitor]));
}
