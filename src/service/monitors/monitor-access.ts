// The monitor that a call names: finding it, and the steps of every change. A change locks the monitor, compares its
// version with the caller's, and writes configuration, live row and change record under the next version. The files of
// the use cases decide what changes.
import { type LiveState, type Timing, type TimingState, toTiming } from '../../domain/monitor.ts';
import { notFound, ProblemError } from '../../domain/problem.ts';
import { restUntilReturn } from '../../domain/wake.ts';
import { lockLive, type MonitorRef, updateLive } from '../../store/monitors/live.ts';
import {
  type ChangeKind,
  type ConfigurationRecord,
  insertChange,
} from '../../store/monitors/monitor-changes.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import {
  findLockedMonitor,
  findMonitorRefs,
  findMonitors,
  type MonitorName,
  updateMonitor,
} from '../../store/monitors/monitors.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import { inTwoJurisdictions } from '../calls/homes.ts';

/** The keys of a monitor. Throws `not_found`, and `conflict` for an id that exists in two jurisdictions. */
export async function findMonitorRef(db: Queryable, name: MonitorName): Promise<MonitorRef> {
  return requireOne(await findMonitorRefs(db, name));
}

/** As findMonitorRef, with everything that a read needs, in one round trip. */
export async function findMonitor(db: Queryable, name: MonitorName): Promise<MonitorRecord> {
  return requireOne(await findMonitors(db, name));
}

function requireOne<Found>(found: readonly Found[]): Found {
  const [first, second] = found;
  if (first === undefined) throw notFound();
  if (second === undefined) return first;
  throw inTwoJurisdictions();
}

export interface VersionedName extends MonitorName {
  /** The configuration version that the caller has read. */
  expectedVersion: number;
}

/** A monitor whose live row this transaction has locked. */
export interface LockedMonitor {
  record: MonitorRecord;
  timing: Timing;
  /** The database's clock, read under the lock. */
  nowMs: number;
}

/** Locks and reads a monitor. Throws `not_found`, `conflict` and `precondition_failed`. */
export async function lockMonitor(
  tx: Queryable,
  context: Pick<ServiceContext, 'minimumIntervalSeconds'>,
  name: VersionedName,
): Promise<LockedMonitor> {
  const ref = await findMonitorRef(tx, name);
  const { nowMs } = await lockLive(tx, [ref]);
  const record = await findLockedMonitor(tx, ref);
  // It was deleted between the two statements.
  if (!record) throw notFound();
  if (record.configurationVersion !== name.expectedVersion) {
    throw new ProblemError('precondition_failed', {
      detail: `The monitor now has configuration version ${record.configurationVersion}: read it again, then repeat the change.`,
    });
  }
  const timing = timingOf(context, record);
  // A change of the configuration must not count from a deadline that no sweeper saw during a suspension.
  const live = restUntilReturn(timing, record.live, { nowMs, returnedMs: record.returnedMs });
  return { record: { ...record, live }, timing, nowMs };
}

/** The part of a record that the domain decides by. */
export function timingOf(
  context: Pick<ServiceContext, 'minimumIntervalSeconds'>,
  record: Pick<MonitorRecord, 'configuration' | keyof TimingState>,
): Timing {
  return toTiming(record.configuration, record, context.minimumIntervalSeconds * 1000);
}

/** A locked monitor after a change. */
export interface ChangedMonitor {
  record: MonitorRecord;
  live: LiveState;
  change: ChangeKind;
}

/** Writes a change under the next configuration version and returns the monitor as it is now. */
export async function saveMonitor(
  tx: Queryable,
  caller: Pick<Caller, 'actor' | 'requestId'>,
  changed: ChangedMonitor,
  nowMs: number,
): Promise<MonitorRecord> {
  const { live, change } = changed;
  const configurationVersion = changed.record.configurationVersion + 1;
  const record: MonitorRecord = { ...changed.record, configurationVersion, live, updatedMs: nowMs, nowMs };
  await updateMonitor(tx, record);
  await updateLive(tx, [
    { projectId: record.projectId, monitorKey: record.monitorKey, configurationVersion, live },
  ]);
  await insertChange(tx, record, changeRecordOf(caller, record, change));
  return record;
}

/** The change record for the configuration version of `record`. */
export function changeRecordOf(
  caller: Pick<Caller, 'actor' | 'requestId'>,
  record: Pick<MonitorRecord, 'configurationVersion' | 'configuration' | 'binding' | 'updatedMs'>,
  change: ChangeKind,
): ConfigurationRecord {
  return {
    change,
    configurationVersion: record.configurationVersion,
    actor: caller.actor,
    occurredMs: record.updatedMs,
    sourceRequestId: caller.requestId,
    configuration: { ...record.configuration, binding: record.binding },
  };
}
