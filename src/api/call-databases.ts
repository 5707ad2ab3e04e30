// The databases of one call. With one database all are the same. With several, what the call names decides where it works:
// its jurisdiction, or the database that has the monitor, incident or delivery of its path.
import type { PathParameter } from '../contract/operations/operations.ts';
import type { Jurisdiction } from '../domain/monitor.ts';
import { notFound } from '../domain/problem.ts';
import {
  askPresent,
  findHome,
  findHomes,
  type Homes,
  inHome,
  type Look,
  type SharedHome,
  withMonitors,
} from '../service/calls/homes.ts';
import { findDelivery } from '../store/deliveries/deliveries.ts';
import { findIncident } from '../store/incidents/incidents.ts';
import { findMonitorRefs } from '../store/monitors/monitors.ts';
import { findReplay, type IdempotencyGuard, type Replay } from '../store/tenancy/idempotency.ts';

/** What a path names that is in one database. */
export const LOOKS = {
  monitorId: (projectId, monitorId) => async (db) =>
    (await findMonitorRefs(db, { projectId, monitorId })).length > 0,
  incidentId: (projectId, incidentId) => async (db) =>
    (await findIncident(db, projectId, incidentId)) !== undefined,
  deliveryId: (projectId, deliveryId) => async (db) =>
    (await findDelivery(db, projectId, deliveryId)) !== undefined,
} satisfies { [Name in PathParameter]?: (projectId: string, id: string) => Look };

export interface CallDatabases {
  /** The answer of an earlier call with the key, wherever that call worked. */
  findReplay: (guard: IdempotencyGuard) => Promise<Replay | undefined>;
  /** Does the work in the call's own database. */
  run: <Result>(work: (home: SharedHome) => Promise<Result>) => Promise<Result>;
}

/** Where a call works that its input describes. `homes`: all of the installation. */
export function databasesOf(homes: Homes, projectId: string, input: CallInput): CallDatabases {
  const [first] = homes;
  if (homes.length === 1)
    return { findReplay: (guard) => findReplay(first.db, guard), run: (work) => work(first) };
  return {
    findReplay: (guard) => findReplayIn(homes, guard),
    run: async (work) => {
      const home = await homeOf(homes, projectId, input);
      return home ? await inHome(home, () => work(home)) : await work(first);
    },
  };
}

/** Throws `not_found` where no database of the installation has it. */
export async function requireInOneOf(
  homes: Homes,
  name: keyof typeof LOOKS,
  projectId: string,
  id: string,
): Promise<void> {
  const look = LOOKS[name](projectId, id);
  if (homes.length > 1) await findHomes(homes, look);
  else if (!(await look(homes[0].db))) throw notFound();
}

/** The parts of a call that say where it works. */
export interface CallInput {
  params?: { [Name in PathParameter]?: string };
  query?: { jurisdiction?: Jurisdiction };
  body?: { jurisdiction?: Jurisdiction };
}

/** Undefined: what the call names is in no jurisdiction, or it names none. */
async function homeOf(
  homes: readonly SharedHome[],
  projectId: string,
  { params = {}, query, body }: CallInput,
): Promise<SharedHome | undefined> {
  const stated = body?.jurisdiction ?? query?.jurisdiction;
  if (stated) return withMonitors(homes, stated)[0];
  for (const name of Object.keys(LOOKS) as (keyof typeof LOOKS)[]) {
    const id = params[name];
    if (id === undefined) continue;
    const asked = name === 'deliveryId' ? homes : withMonitors(homes);
    return await findHome(asked, LOOKS[name](projectId, id));
  }
  return undefined;
}

/**
 * Each database keeps the answers of its own calls. A key that was used for another call anywhere is refused, except where a
 * database is away: it holds up no call to another one. The call that has the key worked in its own database, and so would its
 * repetition.
 */
async function findReplayIn(homes: Homes, guard: IdempotencyGuard): Promise<Replay | undefined> {
  const found = await askPresent(homes, (db) => findReplay(db, guard));
  return found.find((replay) => replay !== undefined);
}
