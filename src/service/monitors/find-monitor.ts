// Finds the monitor that a caller names: 404 where there is none, 409 where the id exists in two jurisdictions.
import { notFound, ProblemError } from '../../domain/problem.ts';
import type { MonitorRef } from '../../store/monitors/live.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import { findMonitorRefs, findMonitors, type MonitorName } from '../../store/monitors/monitors.ts';
import type { Queryable } from '../../store/postgres/pool.ts';

/** The keys of a monitor of the project. Throws `not_found` and `conflict`. */
export async function findMonitorRef(db: Queryable, name: MonitorName): Promise<MonitorRef> {
  return requireOne(await findMonitorRefs(db, name));
}

/** As findMonitorRef, with all that a read shows, in one round trip. */
export async function findMonitor(db: Queryable, name: MonitorName): Promise<MonitorRecord> {
  return requireOne(await findMonitors(db, name));
}

function requireOne<Found>(found: readonly Found[]): Found {
  const [first, second] = found;
  if (first === undefined) throw notFound();
  if (second === undefined) return first;
  throw new ProblemError('conflict', {
    detail: 'This monitor ID exists in more than one jurisdiction: say which with ?jurisdiction=.',
  });
}
