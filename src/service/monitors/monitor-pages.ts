// Pages of a project's monitors: where a page starts, also after a monitor whose name is too long for a cursor.
import { createHash } from 'node:crypto';
import type { Jurisdiction } from '../../domain/monitor.ts';
import {
  findMonitorPosition,
  listMonitors,
  type MonitorFilter,
  type MonitorPage,
  type MonitorPosition,
  positionOf,
} from '../../store/monitors/monitor-list.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import { type SharedHome, withMonitors } from '../calls/homes.ts';
import { readEach } from '../calls/merged-pages.ts';

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

/** A page of the project's monitors in these databases, by name. Throws where one is away. */
export async function readMonitors(
  homes: readonly SharedHome[],
  projectId: string,
  filter: MonitorFilter,
  { limit, after: start }: { limit: number; after?: MonitorPageStart },
): Promise<MonitorPage> {
  const after = start && (await placeOf(homes, projectId, start));
  const [first, ...others] = await readEach(homes, (db) =>
    listMonitors(db, projectId, filter, { limit, after }),
  );
  if (first === undefined) return { monitors: [] };
  return others.length === 0 ? first : mergePages([first, ...others], limit);
}

/** A page may end before it is full: of the others too it shows only what comes before that end. */
function mergePages(pages: readonly MonitorPage[], limit: number): MonitorPage {
  const end = pages.flatMap(({ next }) => next ?? []).sort(byPlace)[0];
  const isBeforeEnd = (monitor: MonitorRecord) => !end || byPlace(positionOf(monitor), end) <= 0;
  const found = pages.flatMap(({ monitors }) => monitors).filter(isBeforeEnd);
  const monitors = found.sort((a, b) => byPlace(positionOf(a), positionOf(b))).slice(0, limit);
  const last = monitors.at(-1);
  return { monitors, next: found.length > limit && last ? positionOf(last) : end };
}

/** As Postgres orders them: by the bytes of UTF-8. */
function byPlace(a: MonitorPosition, b: MonitorPosition): number {
  const bytes = ({ nameKey, monitorId, jurisdiction }: MonitorPosition) =>
    [nameKey, monitorId, jurisdiction].map((text) => Buffer.from(text));
  const [left, right] = [bytes(a), bytes(b)];
  for (const [index, part] of left.entries()) {
    const order = part.compare(right[index] ?? part);
    if (order !== 0) return order;
  }
  return 0;
}

async function placeOf(
  homes: readonly SharedHome[],
  projectId: string,
  start: MonitorPageStart,
): Promise<MonitorPosition> {
  if ('nameKey' in start) return start;
  const [place] = await readEach(withMonitors(homes, start.jurisdiction), (db) =>
    findMonitorPosition(db, projectId, start),
  );
  if (place && digestOf(place.nameKey) === start.digest) return place;
  // It is deleted or renamed: names with the same beginning are repeated, and none is left out.
  return { nameKey: start.prefix, monitorId: '', jurisdiction: start.jurisdiction };
}

function digestOf(nameKey: string): string {
  return createHash('sha256').update(nameKey).digest('base64url').slice(0, 16);
}
