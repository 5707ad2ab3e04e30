// Pages of a project's monitors: where a page starts, also after a monitor whose name is too long for a cursor.
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

/** A position with a shortened name. The monitor has the whole name, as long as it exists under that name. */
export interface ShortPosition {
  /** The beginning of the name key. */
  prefix: string;
  /** Of the whole name key. */
  digest: string;
  monitorId: string;
  jurisdiction: Jurisdiction;
}

/** What a page starts after. */
export type MonitorPageStart = MonitorPosition | ShortPosition;

/** Code points of a long name key that go into a cursor. */
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
  // It is deleted or renamed: names with the same beginning are repeated, and none is left out.
  return { nameKey: start.prefix, monitorId: '', jurisdiction: start.jurisdiction };
}

function digestOf(nameKey: string): string {
  return createHash('sha256').update(nameKey).digest('base64url').slice(0, 16);
}
