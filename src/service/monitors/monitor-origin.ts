// Which object of the cluster a monitor stands for (docs/contract/monitors.md, "Origin"). The api lets the operator alone
// in here.
import { isDeepStrictEqual } from 'node:util';
import { takeOver } from '../../domain/lifecycle.ts';
import {
  isSameObject,
  isSameOrigin,
  type MonitorOrigin,
  nameOfOrigin,
  withOwnedFields,
} from '../../domain/origin.ts';
import { notFound, ProblemError } from '../../domain/problem.ts';
import { lockLive, type MonitorRef, touchLive } from '../../store/monitors/live.ts';
import {
  findOriginHolder,
  findReported,
  type OriginReport,
  writeReport,
} from '../../store/monitors/monitor-origins.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import { findLockedMonitor, type MonitorName, updateMonitor } from '../../store/monitors/monitors.ts';
import { ChangedMeanwhile, codeOf, SQLSTATE } from '../../store/postgres/database-error.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import { findMonitorRef, saveMonitor, timingOf } from './monitor-access.ts';

const CHANGE = { kind: 'configuration' } as const;

export interface OriginChange {
  name: MonitorName;
  /** Undefined: no object declares the monitor any more. */
  origin: MonitorOrigin | undefined;
}

/**
 * Sets the origin, and takes it from the monitor of the project that has it. Where another object stood for the monitor
 * before, its clock starts again. The same object again only adds its owned fields. Throws `not_found` and `conflict`.
 */
export async function setMonitorOrigin(
  tx: Queryable,
  context: Pick<ServiceContext, 'minimumIntervalSeconds'>,
  caller: Caller,
  { name, origin }: OriginChange,
): Promise<MonitorRecord> {
  const ref = await findMonitorRef(tx, name);
  const { record, holder, nowMs } = await lockWithHolder(tx, ref, origin);
  if (isSameObject(record.origin, origin)) return await renew(tx, record, origin);
  const by = { caller, nowMs };
  if (holder) await release(tx, holder, by);
  const isMadeAgain = record.origin !== undefined && origin !== undefined && record.origin.uid !== origin.uid;
  const live = isMadeAgain ? takeOver(timingOf(context, record), record.live, nowMs) : record.live;
  const declared = origin && withOwnedFields(origin, record.origin);
  return await save(tx, { ...record, origin: declared, live }, by);
}

/** Locks the monitor and the one that has the origin, in key order. `holder`: undefined where it is the same monitor. */
async function lockWithHolder(tx: Queryable, ref: MonitorRef, origin: MonitorOrigin | undefined) {
  const found = origin && (await findOriginHolder(tx, ref.projectId, origin));
  const other = found?.monitorKey === ref.monitorKey ? undefined : found;
  const { nowMs } = await lockLive(tx, other ? [ref, other] : [ref]);
  const record = await findLockedMonitor(tx, ref);
  if (!record) throw notFound();
  // It may have been deleted, or have lost the origin, while this transaction waited for the locks.
  const holder = other && (await findLockedMonitor(tx, other));
  return { record, holder: holder && isSameOrigin(holder.origin, origin) ? holder : undefined, nowMs };
}

interface By {
  caller: Pick<Caller, 'actor' | 'requestId'>;
  nowMs: number;
}

/** Takes the origin from the monitor that has it, if one does. */
export async function releaseOrigin(
  tx: Queryable,
  caller: By['caller'] & Pick<Caller, 'projectId'>,
  origin: MonitorOrigin,
): Promise<void> {
  const held = await lockHolder(tx, caller.projectId, origin);
  if (held) await release(tx, held.record, { caller, nowMs: held.nowMs });
}

/** The monitor that has the origin, with its live row locked. Passes over the one with the id `except`. */
async function lockHolder(tx: Queryable, projectId: string, origin: MonitorOrigin, except?: string) {
  const found = await findOriginHolder(tx, projectId, origin);
  if (!found || found.monitorId === except) return undefined;
  const { nowMs } = await lockLive(tx, [found]);
  const record = await findLockedMonitor(tx, found);
  return record && isSameOrigin(record.origin, origin) ? { record, nowMs } : undefined;
}

async function release(tx: Queryable, record: MonitorRecord, by: By): Promise<void> {
  await save(tx, { ...record, origin: undefined }, by);
}

async function save(tx: Queryable, record: MonitorRecord, { caller, nowMs }: By): Promise<MonitorRecord> {
  try {
    return await saveMonitor(tx, caller, { record, live: record.live, change: CHANGE }, nowMs);
  } catch (error) {
    // Another transaction has given the origin to a monitor that was not locked here (index monitors_origin).
    if (codeOf(error) === SQLSTATE.uniqueViolation) throw new ChangedMeanwhile('The origin was taken.');
    throw error;
  }
}

/** That an object is there again, or has set more fields, is no change of the configuration. */
async function renew(
  tx: Queryable,
  record: MonitorRecord,
  stated: MonitorOrigin | undefined,
): Promise<MonitorRecord> {
  const { origin: before } = record;
  if (before === undefined || stated === undefined) return record;
  const origin = { ...before, ownedFields: stated.ownedFields ?? before.ownedFields, orphanedMs: undefined };
  if (isDeepStrictEqual(origin, before)) return record;
  const renewed = { ...record, origin };
  await updateMonitor(tx, renewed);
  if (before.orphanedMs !== undefined) await touchLive(tx, renewed);
  return renewed;
}

/**
 * Frees the origin for a new monitor where the one that has it is archived and can't be restored any more. Throws
 * `origin_taken` for any other, but for one that has the id of the new monitor: that is another conflict.
 */
export async function claimOrigin(
  tx: Queryable,
  caller: Caller,
  { origin, monitorId }: { origin: MonitorOrigin; monitorId: string },
): Promise<void> {
  const held = await lockHolder(tx, caller.projectId, origin, monitorId);
  if (!held) return;
  if (!isOver(held)) throw originTaken(held.record.monitorId, origin);
  await release(tx, held.record, { caller, nowMs: held.nowMs });
}

/** Whether a monitor has the origin that `releaseOver` would take it from. Throws `origin_taken` for any other one. */
export async function isHeldByOver(
  tx: Queryable,
  { projectId }: Pick<Caller, 'projectId'>,
  origin: MonitorOrigin,
): Promise<boolean> {
  const held = await lockHolder(tx, projectId, origin);
  if (held && !isOver(held)) throw originTaken(held.record.monitorId, origin);
  return held !== undefined;
}

/** Takes the origin from the monitor that has it, if that is archived and can't be restored any more. */
export async function releaseOver(tx: Queryable, caller: Caller, origin: MonitorOrigin): Promise<void> {
  const held = await lockHolder(tx, caller.projectId, origin);
  if (held && isOver(held)) await release(tx, held.record, { caller, nowMs: held.nowMs });
}

/** Whether the monitor is archived and can't be restored any more: the sweeper deletes it. */
function isOver({ record, nowMs }: { record: MonitorRecord; nowMs: number }): boolean {
  return record.lifecycle === 'archived' && (record.restorableUntilMs ?? nowMs) <= nowMs;
}

function originTaken(monitorId: string, origin: MonitorOrigin): ProblemError {
  return new ProblemError('origin_taken', {
    detail: `The monitor ${monitorId} has the origin ${nameOfOrigin(origin)}: set its origin to take it over.`,
    holder: { monitorId },
  });
}

/**
 * Which monitors have lost their objects, and which have not. One that is orphaned already keeps its time. Without a
 * change it locks and writes nothing.
 */
export async function reportOrigins(
  tx: Queryable,
  projectId: string,
  report: OriginReport,
): Promise<{ orphaned: number; seen: number }> {
  const refs = await findReported(tx, projectId, report);
  if (refs.length === 0) return { orphaned: 0, seen: 0 };
  const { rows, nowMs } = await lockLive(tx, refs);
  return await writeReport(tx, rows, report, nowMs);
}
