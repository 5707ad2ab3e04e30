// What an export reads: its order, and a page of each kind of what a project has, in an order that never changes.
import { DAY_MS } from '../../domain/retention.ts';
import {
  listExportedBuckets,
  listExportedObservations,
  readKeptHistory,
} from '../../store/beats/exported-history.ts';
import type { HistoryFormat } from '../../store/beats/exported-lines.ts';
import type { HistoryLimits, HistoryPage } from '../../store/beats/exported-page.ts';
import { type EndpointRow, listEndpoints } from '../../store/callbacks/callback-endpoints.ts';
import { type ListedIncident, listIncidents } from '../../store/incidents/incidents.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import { listMonitorsByKey } from '../../store/monitors/monitors-by-key.ts';
import type { Database } from '../../store/postgres/pool.ts';
import type { Project } from '../../store/tenancy/projects.ts';
import type { UsageRecord } from '../../store/tenancy/usage.ts';
import { type ExportHome, type ExportSources, type ExportSpan, keptFrom } from './export-homes.ts';

export interface ExportScope {
  organizationId: string;
  /** Undefined: all projects of the organization. */
  projectId?: string;
}

/** The largest pages. */
export interface ExportPages extends Omit<HistoryLimits, 'lineBytes'> {
  items: number;
  /** Monitors with all that they have: one with many rules has 200 KB. */
  wholeMonitors: number;
}
/** A page of observations is read in some milliseconds from memory, and within the time of a statement from a slow disk. */
export const PAGES: ExportPages = {
  items: 200,
  wholeMonitors: 20,
  lines: 4_000,
  bytes: 1_048_576,
  monitors: 200,
};

/** What an export is of: it stays the same where it goes on. */
export interface ExportExtent {
  scope: ExportScope;
  format: HistoryFormat;
  /** Hours of observations. The plan may not have them. */
  includesBuckets: boolean;
}

export interface ExportOrder extends ExportExtent, ExportSources {
  includesUsage: boolean;
  pages?: ExportPages;
}

export type Key = readonly (string | number)[];

export type ExportContent =
  | { kind: 'started' | 'buckets_omitted' | 'usage_omitted' }
  | { kind: 'project'; items: Project[] }
  | { kind: 'endpoint'; items: EndpointRow[] }
  | { kind: 'monitor'; items: MonitorRecord[] }
  | { kind: 'incident'; items: ListedIncident[] }
  | { kind: 'usage'; items: UsageRecord[] }
  /** Lines that are ready. */
  | { kind: 'history'; text: Buffer; lines: number };

export interface Walk {
  order: ExportOrder;
  pages: ExportPages;
  /** Of a line at the end of the last page of history. */
  lineBytes: number;
}

/** Before the first page. */
export const LINE_BYTES = 1_000;

/** A part of what is read, and where it ends. */
export interface ProjectPart {
  content: ExportContent;
  end: Key | undefined;
}

/** What is read of a project at once: where it ends, or undefined where the project has none. */
export interface ProjectPage {
  parts: ProjectPart[];
  end: Key | undefined;
  hasMore: boolean;
}

/** What a page is read of: what comes after the last one of the page before. */
export interface PageOf {
  db: Database;
  projectId: string;
  after: Key | undefined;
}

/** Kinds that are where the monitors are. */
export type OfHomes = 'monitor' | 'incident' | 'observation' | 'observation_bucket';

export const keyOf = (text: string | undefined): Key | undefined => (text === undefined ? undefined : [text]);

/** A page of a project's endpoints. Those of monitors are with their monitors. */
export async function readEndpoints({ pages }: Walk, { db, projectId, after }: PageOf): Promise<ProjectPage> {
  const [micros, id] = (after ?? []) as [number?, string?];
  const page = { limit: pages.items, after: id === undefined ? undefined : { micros, id } };
  const found = await listEndpoints(db, projectId, page);
  const last = found.at(-1)?.position;
  const items = found.map(({ item }) => item);
  return {
    ...pageOf({ kind: 'endpoint', items }, last && [last.micros ?? 0, last.id]),
    hasMore: items.length === pages.items,
  };
}

type ReadOfHome = (walk: Walk, of: PageOf, home: ExportHome) => Promise<ProjectPage>;

/** A page of what a project has in a database. */
export const READ: Record<OfHomes, ReadOfHome> = {
  monitor: async ({ pages }, { db, projectId, after }, { span }) => {
    const [key] = (after ?? []) as [string?];
    const items = await listMonitorsByKey(db, projectId, {
      ...{ after: key, madeUntilMs: span.startedMs, limit: pages.wholeMonitors },
    });
    return {
      ...pageOf({ kind: 'monitor', items }, keyOf(items.at(-1)?.monitorKey)),
      hasMore: items.length === pages.wholeMonitors,
    };
  },
  incident: async ({ pages }, { db, projectId, after }) => {
    const [id] = (after ?? []) as [string?];
    const page = { limit: pages.items, after: id === undefined ? undefined : { id } };
    const found = await listIncidents(db, { projectId }, page);
    return {
      ...pageOf({ kind: 'incident', items: found.map(({ item }) => item) }, keyOf(found.at(-1)?.position.id)),
      hasMore: found.length === pages.items,
    };
  },
  observation: async (walk, { db, projectId, after }, home) => {
    const [monitorKey = '', sequence = 0] = (after ?? []) as [string?, number?];
    const { span, keptFromMs } = home;
    const page = await listExportedObservations(db, projectId, after && { monitorKey, sequence }, {
      ...{ ...termsOf(walk, home), format: walk.order.format, limits: nextLimits(walk) },
      ...{ fromMs: Math.max(span.observationsFromMs, keptFromMs), untilMs: observationsUntil(span) },
    });
    return historyOf(walk, page, (end) => [end.monitorKey, end.sequence]);
  },
  observation_bucket: async (walk, { db, projectId, after }, home) => {
    const [monitorKey = '', measurement = '', startMs = 0] = (after ?? []) as [string?, string?, number?];
    const kept = await readKeptHistory(db);
    const place = after && { monitorKey, measurement, startMs };
    const page = await listExportedBuckets(db, projectId, place, {
      ...{ ...termsOf(walk, home), summedMs: kept.summedMs, limits: nextLimits(walk) },
      // Of days that are not kept any more since the export began: their observations may have gone unread.
      observationsFromMs: Math.max(home.span.observationsFromMs, keptFrom(walk.order.plan, kept)),
    });
    return historyOf(walk, page, (end) => [end.monitorKey, end.measurement, end.startMs]);
  },
};

const pageOf = (content: ExportContent, end: Key | undefined) => ({ parts: [{ content, end }], end });

const termsOf = ({ order: { plan } }: Walk, { span }: ExportHome) => ({
  madeUntilMs: span.startedMs,
  storedObservations: plan.storedObservations,
});

/** A page of history; where it has nothing, one part without lines says how far the walk is. */
function historyOf<Place>(
  walk: Walk,
  page: HistoryPage<Place>,
  keyOfPlace: (place: Place) => Key,
): ProjectPage {
  walk.lineBytes = page.lineBytes;
  const end = page.end && keyOfPlace(page.end);
  const parts = page.blocks.map(({ text, lines, end }) => ({
    content: { kind: 'history', text, lines } as const,
    end: keyOfPlace(end),
  }));
  // Its last monitors may have nothing.
  const last = parts.pop() ?? { content: NOTHING };
  return { parts: [...parts, { ...last, end }], end, hasMore: page.hasMore };
}

/** What says how far the walk is, and no more. */
export const NOTHING = { kind: 'history', text: Buffer.alloc(0), lines: 0 } as const;

const nextLimits = ({ pages: { lines, bytes, monitors }, lineBytes }: Walk): HistoryLimits => ({
  ...{ lines, bytes, monitors, lineBytes },
});

/** As late may a day of observations end: the clock of the database may have been set back. */
const CLOCK_SLACK_MS = 3_600_000;

/**
 * What came later is not read, so that an export beside beats ends. The end of a day: its partition has no rows that each
 * page would pass by.
 */
function observationsUntil({ startedMs }: ExportSpan): number {
  return Math.ceil((startedMs + CLOCK_SLACK_MS) / DAY_MS) * DAY_MS;
}
