// The databases of one call. With one database all are the same. With several, what the call names decides where it works:
// its jurisdiction, or the database that has the monitor, incident or delivery of its path.
import type { PathParameter } from '../contract/operations/operations.ts';
import type { Jurisdiction } from '../domain/monitor.ts';
import { notFound } from '../domain/problem.ts';
import {
  findFirstHome,
  findOnlyHome,
  type Homes,
  inHome,
  type Look,
  type SharedHome,
  withMonitors,
} from '../service/calls/homes.ts';
import { type Aim, findKeyedHome } from '../service/calls/keyed-home.ts';
import { findDelivery } from '../store/deliveries/deliveries.ts';
import { findIncident } from '../store/incidents/incidents.ts';
import { findMonitorRefs } from '../store/monitors/monitors.ts';
import { findReplay, type IdempotencyGuard, type Replay } from '../store/tenancy/idempotency.ts';

/** What a path names that is in one database. */
export const LOOKS = {
  monitorId: (projectId, monitorId, jurisdiction?: Jurisdiction) => async (db) =>
    (await findMonitorRefs(db, { projectId, monitorId, jurisdiction })).length > 0,
  incidentId: (projectId, incidentId) => async (db) =>
    (await findIncident(db, projectId, incidentId)) !== undefined,
  deliveryId: (projectId, deliveryId) => async (db) =>
    (await findDelivery(db, projectId, deliveryId)) !== undefined,
} satisfies { [Name in PathParameter]?: (projectId: string, id: string) => Look };

/** Does work in the database of a call. */
export interface CallPlace {
  run: <Result>(work: (home: SharedHome) => Promise<Result>) => Promise<Result>;
}

/**
 * Finds where a call works, or the answer of an earlier call with its key. It may find that the resource does not exist, and
 * throws what says so.
 */
export type FindPlace = (guard: IdempotencyGuard | undefined) => Promise<CallPlace | Replay>;

/** Where a call works that its input describes. `homes`: all of the installation. */
export function placeFinder(homes: Homes, projectId: string, input: CallInput): FindPlace {
  const [first] = homes;
  if (homes.length === 1)
    return async (guard) =>
      (guard && (await findReplay(first.db, guard))) ?? { run: async (work) => await work(first) };
  const aim = aimOf(homes, projectId, input);
  return async (guard) => {
    const found = guard ? await findKeyedHome(homes, aim, guard) : await homeOf(aim);
    if ('replay' in found) return found;
    // What names no jurisdiction needs no other sentence than in an installation with one database.
    if (aim.isDefault) return { run: async (work) => await work(found) };
    return { run: (work) => inHome(found, () => work(found)) };
  };
}

/** Throws `not_found` where no database of the installation, or of the jurisdiction, has it. */
export async function requireInOneOf(homes: Homes, look: Look, jurisdiction?: Jurisdiction): Promise<void> {
  if (homes.length > 1) await findFirstHome(jurisdiction ? withMonitors(homes, jurisdiction) : homes, look);
  else if (!(await look(homes[0].db))) throw notFound();
}

/** The parts of a call that say where it works. */
export interface CallInput {
  params?: { [Name in PathParameter]?: string };
  query?: { jurisdiction?: Jurisdiction };
  body?: { jurisdiction?: Jurisdiction };
}

type CallAim = Aim & { isDefault?: true };

/** `isDefault`: what the call names is in no jurisdiction, or it names none. */
function aimOf(homes: Homes, projectId: string, { params = {}, query, body }: CallInput): CallAim {
  const stated = body?.jurisdiction ?? query?.jurisdiction;
  const [home] = stated ? withMonitors(homes, stated) : [];
  if (home) return { home };
  for (const name of Object.keys(LOOKS) as (keyof typeof LOOKS)[]) {
    const id = params[name];
    if (id === undefined) continue;
    return {
      asked: name === 'deliveryId' ? homes : withMonitors(homes),
      look: LOOKS[name](projectId, id),
      // The service makes these ids; those of monitors may be in two databases.
      isInOne: name !== 'monitorId',
    };
  }
  return { home: homes[0], isDefault: true };
}

async function homeOf(aim: Aim): Promise<SharedHome> {
  if ('home' in aim) return aim.home;
  return aim.isInOne ? await findFirstHome(aim.asked, aim.look) : await findOnlyHome(aim.asked, aim.look);
}
