// The walk of an export through all that an organization, or one project of it, has: kind after kind, project after project,
// page after page, each in an order that never changes. So a walk that begins again at a place neither skips nor repeats
// anything. It holds a connection while it reads a page, and none while nobody takes one.
import { findProjectsWithMonitors } from '../../store/monitors/monitors-by-key.ts';
import type { Database } from '../../store/postgres/pool.ts';
import { findProject, listProjects, type Project } from '../../store/tenancy/projects.ts';
import { listUsage } from '../../store/tenancy/usage.ts';
import {
  type ExportContent,
  type ExportOrder,
  type Key,
  keepsBuckets,
  keyOf,
  LINE_BYTES,
  type OfProjects,
  PAGES,
  READ,
  type Read,
  type Walk,
} from './export-pages.ts';
import { readAhead } from './read-ahead.ts';

/** Where a walk goes on: the kind, of kinds that projects have the project, and the last one of the page before in it. */
export interface ExportPlace {
  kind: ExportKind;
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
  db: Database,
  order: ExportOrder,
  from: ExportPlace = { kind: 'started' },
): AsyncGenerator<ExportPart, void, undefined> {
  const walk: Walk = { db, order, pages: order.pages ?? PAGES, lineBytes: LINE_BYTES };
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
    else if (kind !== 'end') yield* walkOfProjects(walk, place, kind);
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
async function nextProjects({ db, order, pages }: Walk, before: string | undefined): Promise<Project[]> {
  const { organizationId, projectId } = order.scope;
  return await listProjects(db, organizationId, {
    limit: pages.items,
    beforeId: before,
    onlyProjectId: projectId,
  });
}

async function* walkUsage({ db, order, pages }: Walk, { key }: ExportPlace): AsyncGenerator<ExportPage> {
  if (!order.includesUsage) {
    yield [{ content: { kind: 'usage_omitted' }, place: { kind: 'end' } }];
    return;
  }
  let after = key?.[0] as string | undefined;
  for (;;) {
    const items = await listUsage(db, order.scope, { after, limit: pages.items });
    after = items.at(-1)?.period ?? after;
    yield [{ content: { kind: 'usage', items }, place: { kind: 'usage', key: keyOf(after) } }];
    if (items.length < pages.items) return;
  }
}

/** A project without monitors has none of them: very many such projects take few statements. */
const OF_MONITORS: readonly OfProjects[] = ['monitor', 'observation', 'observation_bucket'];

async function* walkOfProjects(walk: Walk, place: ExportPlace, kind: OfProjects): AsyncGenerator<ExportPage> {
  if (kind === 'observation_bucket') {
    if (!walk.order.includesBuckets) return;
    if (!keepsBuckets(walk.order.plan)) {
      yield [{ content: { kind: 'buckets_omitted' }, place: { kind: 'usage' } }];
      return;
    }
  }
  let { projectId: before } = place;
  if (before !== undefined && (await isOfScope(walk, before)))
    yield* walkProject(walk, { ...place, projectId: before }, READ[kind]);
  for (;;) {
    const projects = await nextProjects(walk, before);
    const ids = projects.map(({ projectId }) => projectId);
    const asked = OF_MONITORS.includes(kind) ? await findProjectsWithMonitors(walk.db, ids) : new Set(ids);
    for (const projectId of ids)
      if (asked.has(projectId)) yield* walkProject(walk, { kind, projectId }, READ[kind]);
    before = projects.at(-1)?.projectId;
    if (before === undefined || projects.length < walk.pages.items) return;
  }
}

/** A cursor comes from outside: it may name any project. */
async function isOfScope({ db, order: { scope } }: Walk, projectId: string): Promise<boolean> {
  if (scope.projectId !== undefined) return scope.projectId === projectId;
  return (await findProject(db, scope.organizationId, projectId))?.projectId === projectId;
}

async function* walkProject(
  walk: Walk,
  { kind, projectId, key }: ExportPlace & { projectId: string },
  read: Read,
): AsyncGenerator<ExportPage> {
  let after = key;
  for (;;) {
    const page = await read(walk, projectId, after);
    const before = after;
    yield page.parts.map(({ content, end }) => ({ content, place: { kind, projectId, key: end ?? before } }));
    after = page.end ?? after;
    if (!page.hasMore) return;
  }
}
