// Which operator beats a monitor (docs/contract/monitors.md, "Who beats it"). The api lets the operator alone set it; whoever may
// manage takes a monitor from one that is gone.
import { refitClock, withWakeAfterChange } from '../../domain/deadline.ts';
import { takeOver } from '../../domain/lifecycle.ts';
import type { LiveState, Timing } from '../../domain/monitor.ts';
import { silenceOf } from '../../domain/operator-sign.ts';
import { notFound } from '../../domain/problem.ts';
import { lockLive, touchLive, updateLive } from '../../store/monitors/live.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import { findLockedMonitor, type MonitorName, updateMonitor } from '../../store/monitors/monitors.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { insertOperator, readOperators } from '../../store/upkeep/operator-signs.ts';
import type { ServiceContext } from '../calls/context.ts';
import { findMonitorRef, timingOf } from './monitor-access.ts';

/** `operatorId` undefined: none beats it. The same again changes nothing. Throws `not_found` and `conflict`. */
export async function setBeatenBy(
  tx: Queryable,
  context: Pick<ServiceContext, 'minimumIntervalSeconds'>,
  { name, operatorId }: { name: MonitorName; operatorId: string | undefined },
): Promise<MonitorRecord> {
  const ref = await findMonitorRef(tx, name);
  const { nowMs } = await lockLive(tx, [ref]);
  const record = await findLockedMonitor(tx, ref);
  if (!record) throw notFound();
  const { organizationId } = record;
  // Who is named for the first time is there: its silence begins with this moment.
  if (operatorId !== undefined) await insertOperator(tx, { organizationId, operatorId });
  if (record.beatenBy === operatorId) return record;
  const timing = {
    before: timingOf(context, record),
    after: timingOf(context, { ...record, beatenBy: operatorId }),
  };
  const mayHaveLost = await mayHaveLostBeats(tx, record, nowMs);
  const live = mayHaveLost
    ? takeOver(timing.after, record.live, nowMs)
    : refitSchedule(timing, record.live, nowMs);
  const changed = { ...record, beatenBy: operatorId, live, nowMs };
  await updateMonitor(tx, changed);
  if (live === record.live) await touchLive(tx, ref);
  else await updateLive(tx, [{ ...ref, configurationVersion: record.configurationVersion, live }]);
  return changed;
}

/** Kubernetes counts the times of a schedule in its own way where clocks change. */
function refitSchedule({ before, after }: { before: Timing; after: Timing }, live: LiveState, nowMs: number) {
  const { anchorMs } = live;
  if (!after.schedule || anchorMs === undefined || live.deadlineMs === undefined) return live;
  const isSame = before.schedule?.nextAfter(anchorMs) === after.schedule.nextAfter(anchorMs);
  return isSame ? live : withWakeAfterChange(after, refitClock(after, live, nowMs), nowMs);
}

/**
 * Whether the operator that beats the monitor until now was silent since its clock started. Its outages count for its own
 * monitors alone: without them a deadline that they have moved would be in the past at once.
 */
async function mayHaveLostBeats(tx: Queryable, record: MonitorRecord, nowMs: number): Promise<boolean> {
  const { organizationId, beatenBy: operatorId, live } = record;
  if (operatorId === undefined) return false;
  const operator = { organizationId, operatorId };
  const signs = (await readOperators(tx, [operator], live.anchorMs ?? nowMs)).of(operator, record);
  return signs.outages.length > 0 || silenceOf(signs, nowMs).isSilent;
}
