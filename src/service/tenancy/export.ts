// The walk of an export through all that an organization, or one project of it, has: kind after kind, project after project,
// page after page, each in an order that never changes; kinds that are where the monitors are, database after database. So a
// walk that begins again at a place neither skips nor repeats anything. It holds a connection while it reads a page, and
// none while nobody takes one.
import { findProjectsWithMonitors } from '../../store/monitors/monitors-by-key.ts';
import type { Database } from '../../store/postgres/pool.ts';
import { findProject, listProjects, type Project } from '../../store/tenancy/projects.ts';
import { readHome } from '../calls/homes.ts';
import { type ExportHome, keepsBuckets } from './export-homes.ts';
import {
  type ExportContent,
  type ExportOrder,
  type Key,
  keyOf,
  LINE_BYTES,
  NOTHING,
  type OfHomes,
  PAGES,
  type PageOf,
  type ProjectPage,
  READ,
  readEndpoints,
  type Walk,
} from './export-pages.ts';
import { readUsage } from './export-usage.ts';
import { readAhead } from './read-ahead.ts';

/**
 * Where a walk goes on: the kind, the database and the project of kinds that have them, and the last one of the page before
 * in it.
 */
export interface ExportPlace {
  kind: ExportKind;
  /** The name of an `ExportHome`. */
  home?: string;
  projectId?: string;
  key?: Key;
}

const KINDS = [
  ...(['started', 'project', 'endpoint', 'monitor', 'incident'] as const),
  ...(['observation', 'observation_bucket', 'usage', 'end'] as const),
];
export type ExportKind = (typeof KINDS)[number];

export interface ExportPart {
  content: ExportContent;
  /** After the part. */
  place: ExportPlace;
}

/** What is read at once. */
type ExportPage = ExportPart[];

/** Walks from a place on, else from the beginning. A part may be empty. It reads one page ahead. */
export async function* walkExport(
  order: ExportOrder,
  from: ExportPlace = { kind: 'started' },
): AsyncGenerator<ExportPart, void, undefined> {
  const walk: Walk = { order, pages: order.pages ?? PAGES, lineBytes: LINE_BYTES };
  for await (const page of readAhead(walkPages(walk, from))) yield* page;
}

async function* walkPages(walk: Walk, from: ExportPlace): AsyncGenerator<ExportPage, void, undefined> {
  const { order } = walk;
  const kinds = order.format === 'csv' ? (['observation'] as const) : KINDS;
  for (const kind of kinds) {
    if (KINDS.indexOf(kind) < KINDS.indexOf(from.kind)) continue;
    const place = kind === from.kind ? from : { kind };
    if (kind === 'started') yield [{ content: { kind }, place: { kind: 'project' } }];
    else if (kind === 'project') yield* walkProjects(walk, place);
    else if (kind === 'usage') yield* walkUsage(walk, place);
    else if (kind === 'endpoint') yield* walkEndpoints(walk, place);
    else if (kind !== 'end') yield* walkHomes(walk, place, kind);
  }
}

async function* walkProjects(walk: Walk, place: ExportPlace): AsyncGenerator<ExportPage> {
  let { projectId } = place;
  for (;;) {
    const items = await nextProjects(walk, projectId);
    projectId = items.at(-1)?.projectId ?? projectId;
    yield [{ content: { kind: 'project', items }, place: { kind: 'project', projectId } }];
    if (items.length < walk.pages.items) return;
  }
}

/** The newest first: one that is made meanwhile is before all places. */
async function nextProjects({ order, pages }: Walk, before: string | undefined): Promise<Project[]> {
  const { organizationId, projectId } = order.scope;
  const page = { limit: pages.items, beforeId: before, onlyProjectId: projectId };
  return await readHome(order.homes[0], (db) => listProjects(db, organizationId, page));
}

async function* walkUsage({ order, pages }: Walk, { key }: ExportPlace): AsyncGenerator<ExportPage> {
  if (!order.includesUsage) {
    yield [{ content: { kind: 'usage_omitted' }, place: { kind: 'end' } }];
    return;
  }
  let after = key?.[0] as string | undefined;
  for (;;) {
    const items = await readUsage(order.homes, order.scope, { after, limit: pages.items });
    after = items.at(-1)?.period ?? after;
    yield [{ content: { kind: 'usage', items }, place: { kind: 'usage', key: keyOf(after) } }];
    if (items.length < pages.items) return;
  }
}

/** A project without monitors has none of them: very many such projects take few statements. */
const OF_MONITORS: readonly OfHomes[] = ['monitor', 'observation', 'observation_bucket'];

async function* walkHomes(walk: Walk, place: ExportPlace, kind: OfHomes): AsyncGenerator<ExportPage> {
  const { includesBuckets, plan, monitorHomes } = walk.order;
  if (kind === 'observation_bucket') {
    if (!includesBuckets) return;
    if (!keepsBuckets(plan)) {
      yield [{ content: { kind: 'buckets_omitted' }, place: { kind: 'usage' } }];
      return;
    }
  }
  const first = Math.max(
    0,
    monitorHomes.findIndex(({ name }) => name === place.home),
  );
  for (const one of monitorHomes.slice(first))
    yield* walkHome(walk, one.name === place.home ? place : { kind, home: one.name }, { kind, one });
}

async function* walkHome(
  walk: Walk,
  place: ExportPlace,
  { kind, one }: { kind: OfHomes; one: ExportHome },
): AsyncGenerator<ExportPage> {
  const read = <Found>(ask: (db: Database) => Promise<Found>) => readHome(one.home, ask);
  yield* walkOfProjects(walk, place, {
    having: async (ids) =>
      OF_MONITORS.includes(kind) ? await read((db) => findProjectsWithMonitors(db, ids)) : new Set(ids),
    read: (of) => read((db) => READ[kind](walk, { ...of, db }, one)),
  });
}

async function* walkEndpoints(walk: Walk, place: ExportPlace): AsyncGenerator<ExportPage> {
  yield* walkOfProjects(walk, place, {
    having: async (ids) => new Set(ids),
    read: (of) => readHome(walk.order.homes[0], (db) => readEndpoints(walk, { ...of, db })),
  });
}

interface OfProjects {
  /** Those of the projects that may have something. */
  having: (projectIds: readonly string[]) => Promise<ReadonlySet<string>>;
  read: (of: Omit<PageOf, 'db'>) => Promise<ProjectPage>;
}

/** The pages of each project from a place on, which names the kind and the database. */
async function* walkOfProjects(
  walk: Walk,
  from: ExportPlace,
  { having, read }: OfProjects,
): AsyncGenerator<ExportPage> {
  let { projectId: before } = from;
  if (before !== undefined && (await isOfScope(walk, before)))
    yield* walkProject({ ...from, projectId: before }, read);
  for (;;) {
    const projects = await nextProjects(walk, before);
    const ids = projects.map(({ projectId }) => projectId);
    const asked = await having(ids);
    for (const projectId of ids)
      if (asked.has(projectId)) yield* walkProject({ ...from, projectId, key: undefined }, read);
    before = projects.at(-1)?.projectId;
    // Very many projects without anything take long.
    if (before !== undefined && !asked.has(before))
      yield [{ content: NOTHING, place: { ...from, projectId: before, key: undefined } }];
    if (before === undefined || projects.length < walk.pages.items) return;
  }
}

/** A cursor comes from outside: it may name any project. */
async function isOfScope({ order: { homes, scope } }: Walk, projectId: string): Promise<boolean> {
  if (scope.projectId !== undefined) return scope.projectId === projectId;
  const found = await readHome(homes[0], (db) => findProject(db, scope.organizationId, projectId));
  return found?.projectId === projectId;
}

async function* walkProject(
  from: ExportPlace & { projectId: string },
  read: OfProjects['read'],
): AsyncGenerator<ExportPage> {
  let after = from.key;
  for (;;) {
    const page = await read({ projectId: from.projectId, after });
    const before = after;
    yield page.parts.map(({ content, end }) => ({ content, place: { ...from, key: end ?? before } }));
    after = page.end ?? after;
    if (!page.hasMore) return;
  }
}
