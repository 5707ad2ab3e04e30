// The databases that an export reads (docs/adr/0013): where an installation has several, each has its own clock, its own
// history and its own monitors, and the default one has what belongs to the organization.
import type { FindPlan, Plan } from '../../domain/plan.ts';
import { DAY_MS, keptObservations } from '../../domain/retention.ts';
import { type KeptHistory, readKeptHistory } from '../../store/beats/exported-history.ts';
import { findStanding } from '../../store/tenancy/organization-standing.ts';
import { nameOfHome } from '../calls/home-names.ts';
import { type Homes, readHome, type SharedHome, withMonitors } from '../calls/homes.ts';

/** Of one database, by its own clock. Both stay as they are where an export goes on. */
export interface ExportSpan {
  startedMs: number;
  /** Observations from then on, and the hours before. */
  observationsFromMs: number;
}

/** By the names of databases. */
export type ExportSpans = ReadonlyMap<string, ExportSpan>;

/** A database with monitors. */
export interface ExportHome {
  /** In cursors. */
  name: string;
  home: SharedHome;
  span: ExportSpan;
  /** Observations before it are not shown: the sweeper may not have deleted them yet. A cursor says nothing of it. */
  keptFromMs: number;
}

export interface ExportSources {
  /** All databases of the installation: the default one is the first. */
  homes: Homes;
  /** In their order in an export: the default one, then by name. */
  monitorHomes: readonly ExportHome[];
  /** What it keeps now. */
  plan: Plan;
}

/**
 * What an export reads. One that goes on has the spans of its cursor, and the terms of now. Throws
 * `temporarily_unavailable` with the jurisdiction where a database is away: an export without its monitors would look whole.
 */
export async function openExportSources(
  homes: Homes,
  { organizationId, includesBuckets }: { organizationId: string; includesBuckets: boolean },
  { findPlan, spans }: { findPlan: FindPlan; spans?: ExportSpans },
): Promise<ExportSources> {
  const [first] = homes;
  const standing = await readHome(first, (db) => findStanding(db, organizationId));
  const plan = findPlan(standing?.plan ?? '');
  const open = async (home: SharedHome): Promise<ExportHome> => {
    const name = nameOfHome(homes, home);
    const kept = await readHome(home, readKeptHistory);
    const span = spans?.get(name) ?? spanOf(plan, kept, includesBuckets);
    return { name, home, span, keptFromMs: keptFrom(plan, kept) };
  };
  return { homes, plan, monitorHomes: await Promise.all(inOrder(homes).map(open)) };
}

function inOrder(homes: Homes): SharedHome[] {
  const [first, ...places] = homes;
  const byName = (a: SharedHome, b: SharedHome) => (nameOfHome(homes, a) < nameOfHome(homes, b) ? -1 : 1);
  return [...withMonitors([first]), ...withMonitors(places).toSorted(byName)];
}

/**
 * Of an export that begins now. With hours it has the oldest day in hours alone: the observations of that day are the next
 * ones to go, maybe before they are read.
 */
function spanOf(plan: Plan, kept: KeptHistory, includesBuckets: boolean): ExportSpan {
  const keptFromMs = keptFrom(plan, kept);
  const hasHours = includesBuckets && keepsBuckets(plan);
  const nextDayMs = Math.min(keptFromMs + DAY_MS, kept.summedMs);
  return {
    startedMs: kept.nowMs,
    observationsFromMs: hasHours ? Math.max(keptFromMs, nextDayMs) : keptFromMs,
  };
}

/** The first moment whose observations the plan keeps, in a database that has this history. */
export function keptFrom(plan: Plan, { nowMs, storedFromMs }: KeptHistory): number {
  return Math.max(storedFromMs, keptObservations(plan, { nowMs, lastSequence: 0 }).fromMs);
}

/** docs/contract/organization.md: the summarized history belongs to the paid plans. */
export const keepsBuckets = (plan: Plan) => plan.id !== 'free';
