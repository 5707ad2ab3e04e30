// Waits for the first beat of a monitor (docs/contract/beats.md). Each process has one watch: all waiting calls share
// its query.
import type { MonitorRef } from '../../store/monitors/live.ts';
import type { MonitorName } from '../../store/monitors/monitors.ts';
import { findBegunMonitors } from '../../store/monitors/monitors.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { SharedPoller } from '../calls/shared-poller.ts';
import { findMonitor } from './monitor-access.ts';

const POLL_MS = 150;

export type FirstBeatWatch = SharedPoller<MonitorRef, true>;

/** Finds the monitors that have had their first beat or are deleted. */
export function createFirstBeatWatch(db: Queryable): FirstBeatWatch {
  return new SharedPoller<MonitorRef, true>({
    everyMs: POLL_MS,
    poll: async (refs) => {
      const begun = await findBegunMonitors(db, refs);
      return refs.map((ref) => (begun.has(ref.monitorKey) ? true : undefined));
    },
  });
}

export interface FirstBeat {
  /** ms; undefined before the first beat. */
  firstBeatMs?: number;
  /** ms. */
  nextDeadlineMs?: number;
}

/**
 * Answers when the first beat comes, when `waitSeconds` have passed, or when the signal aborts.
 * Throws `not_found` and `conflict`.
 */
export async function waitForFirstBeat(
  db: Queryable,
  watch: FirstBeatWatch,
  name: MonitorName,
  hold: { waitSeconds: number; signal: AbortSignal },
): Promise<FirstBeat> {
  const record = await findMonitor(db, name);
  if (record.live.firstBeatMs !== undefined || hold.waitSeconds === 0) return toFirstBeat(record.live);
  const found = await watch.wait(record, { waitMs: hold.waitSeconds * 1000, signal: hold.signal });
  if (!found) return {};
  const { live } = await findMonitor(db, name);
  return toFirstBeat(live);
}

function toFirstBeat(live: { firstBeatMs?: number; deadlineMs?: number }): FirstBeat {
  return { firstBeatMs: live.firstBeatMs, nextDeadlineMs: live.deadlineMs };
}
