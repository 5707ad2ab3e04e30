// Pages of a project's monitors: where one begins, also after a monitor whose name is too long for a cursor.
import { createHash } from 'node:crypto';
import type { Jurisdiction } from '../../domain/monitor.ts';
import {
  findMonitorPosition,
  listMonitors,
  type MonitorFilter,
  type MonitorPosition,
} from '../../store/monitors/monitor-list.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { Queryable } from '../../store/postgres/pool.ts';

/** A place whose name is cut: the monitor says the rest, as long as it is there under that name. */
export interface ShortPosition {
  /** How the name key begins. */
  prefix: string;
  /** Of the whole name key. */
  digest: string;
  monitorId: string;
  jurisdiction: Jurisdiction;
}

/** What a page begins after. */
export type MonitorPageStart = MonitorPosition | ShortPosition;

/** Code points of a name key that go into a cursor when all of them do not. */
const PREFIX = 48;

export function shorten({ nameKey, monitorId, jurisdiction }: MonitorPosition): ShortPosition {
  return {
    prefix: [...nameKey].slice(0, PREFIX).join(''),
    digest: digestOf(nameKey),
    monitorId,
    jurisdiction,
  };
}

/** A page of the project's monitors, by name. */
export async function readMonitors(
  db: Queryable,
  projectId: string,
  filter: MonitorFilter,
  page: { limit: number; after?: MonitorPageStart },
): Promise<{ monitors: MonitorRecord[]; next?: MonitorPosition }> {
  const after = page.after && (await placeOf(db, projectId, page.after));
  return await listMonitors(db, projectId, filter, { ...page, after });
}

async function placeOf(db: Queryable, projectId: string, start: MonitorPageStart): Promise<MonitorPosition> {
  if ('nameKey' in start) return start;
  const place = await findMonitorPosition(db, projectId, start);
  if (place && digestOf(place.nameKey) === start.digest) return place;
  // It is gone, or has another name: names that begin as its did come again, and none is left out.
  return { nameKey: start.prefix, monitorId: '', jurisdiction: start.jurisdiction };
}

function digestOf(nameKey: string): string {
  return createHash('sha256').update(nameKey).digest('base64url').slice(0, 16);
}
