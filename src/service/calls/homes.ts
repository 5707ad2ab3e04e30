// Where an installation has several databases: finding the one that has what a call names, and saying which one is away.
// A database that is away keeps nobody from what another one has.
import { JURISDICTIONS, type Jurisdiction } from '../../domain/monitor.ts';
import { notFound, ProblemError } from '../../domain/problem.ts';
import {
  isDatabaseUnavailable,
  isDatabaseUnusable,
  isUnknownName,
} from '../../store/postgres/database-error.ts';
import { hasSchemaOfBuild } from '../../store/postgres/database-faults.ts';
import type { Databases, Home } from '../../store/postgres/databases.ts';
import { GateClosed } from '../../store/postgres/gate.ts';
import type { Database, Pool, Queryable } from '../../store/postgres/pool.ts';
import { DatabaseBusy } from '../../store/postgres/pool-shares.ts';

/** A home, for the statements of one holder. */
export interface SharedHome extends Home {
  db: Database;
}

/** All databases of the installation, the default one first. */
export type Homes = readonly [SharedHome, ...SharedHome[]];

/** All databases, for the statements of one holder. */
export function shareHomes({ homes }: Pick<Databases, 'homes'>, shareOf: (pool: Pool) => Database): Homes {
  const [first, ...others] = homes;
  const share = (home: Home) => ({ ...home, db: shareOf(home.pool) });
  return [share(first), ...others.map(share)];
}

/** Those with monitors: all, or that of the jurisdiction. */
export function withMonitors(
  homes: readonly SharedHome[],
  jurisdiction?: Jurisdiction,
): readonly SharedHome[] {
  return homes.filter(({ jurisdictions }) =>
    jurisdiction ? jurisdictions.includes(jurisdiction) : jurisdictions.length > 0,
  );
}

/** Whether a database has what a call names. */
export type Look = (db: Queryable) => Promise<boolean>;

/**
 * The home that has what a call names and what may be in two of them: it waits for all that are not away. Throws as
 * `findFirstHome` does, and `conflict` where two have it.
 */
export async function findOnlyHome(homes: readonly SharedHome[], look: Look): Promise<SharedHome> {
  const [found, second] = await findHomes(homes, look, 2);
  if (second) throw inTwoJurisdictions();
  return found;
}

/**
 * The first home that is found to have what a call names: nobody waits for the others. Throws `not_found` where no database
 * has it, and `temporarily_unavailable`, which says whose database is away, where one that is away may have it.
 */
export async function findFirstHome(homes: readonly SharedHome[], look: Look): Promise<SharedHome> {
  const [found] = await findHomes(homes, look, 1);
  return found;
}

/** Looks into all at the same time, until so many have it that the answer is certain. */
async function findHomes(
  homes: readonly SharedHome[],
  look: Look,
  enough: number,
): Promise<[SharedHome, ...SharedHome[]]> {
  const found: SharedHome[] = [];
  const faults = new Map<SharedHome, unknown>();
  const certain = Promise.withResolvers<void>();
  const looks = homes.map(async (home) => {
    const answer = await askHome(home, look);
    if ('fault' in answer) faults.set(home, answer.fault);
    else if (answer.found && found.push(home) >= enough) certain.resolve();
  });
  // What the looks that are left find, or fail of, is of no use any more.
  await Promise.race([certain.promise, Promise.all(looks)]);
  const [first, ...others] = found;
  if (first) return [first, ...others];
  const away = homes.find((home) => faults.has(home));
  if (away) throw jurisdictionAway(away, faults.get(away));
  throw notFound();
}

/** 409: an id that is in two jurisdictions, and the caller names none. */
export function inTwoJurisdictions(): ProblemError {
  return new ProblemError('conflict', {
    detail: 'This monitorId exists in more than one jurisdiction: name one with ?jurisdiction=.',
  });
}

/** What each home answers that is not away. Throws where all are, and faults of ours. */
export async function askPresent<Found>(
  homes: Homes,
  ask: (db: Database) => Promise<Found>,
): Promise<Found[]> {
  const [first] = homes;
  if (homes.length === 1) return [await ask(first.db)];
  const answers = await Promise.all(homes.map(async (home) => await askHome(home, ask)));
  const found = answers.flatMap((answer) => ('fault' in answer ? [] : [answer.found]));
  if (found.length === 0) throw jurisdictionAway(first);
  return found;
}

/** `fault`: it is away. */
export type Asked<Found> = { found: Found } | { fault: unknown };

/** What a home answers. Faults of ours are thrown. */
export async function askHome<Found>(
  home: SharedHome,
  ask: (db: Database) => Promise<Found>,
): Promise<Asked<Found>> {
  const { db, reachability } = home;
  if (reachability.isAway()) return { fault: undefined };
  try {
    return { found: await reachability.orAway(ask(db)) };
  } catch (fault) {
    if (!(await isNoAnswer(home, fault))) throw fault;
    reachability.suspect();
    return { fault };
  }
}

/** Reads from a home. Where it is away it throws a 503 with its name. */
export async function readHome<Found>(
  home: SharedHome,
  read: (db: Database) => Promise<Found>,
): Promise<Found> {
  if (isOnly(home)) return await read(home.db);
  const answer = await askHome(home, read);
  if ('fault' in answer) throw jurisdictionAway(home, answer.fault);
  return answer.found;
}

/** Works in a home, for as long as the work takes. Where it is away it throws a 503 with its name. */
export async function inHome<Result>(
  home: SharedHome,
  work: (db: Database) => Promise<Result>,
): Promise<Result> {
  if (home.reachability.isAway()) throw jurisdictionAway(home);
  try {
    return await work(home.db);
  } catch (error) {
    if (!(await isNoAnswer(home, error))) throw error;
    home.reachability.suspect();
    throw jurisdictionAway(home, error);
  }
}

/** The only database needs no name. */
function isOnly({ jurisdictions }: Home): boolean {
  return jurisdictions.length === JURISDICTIONS.length;
}

/** Also where too many wait for its connections, and where it cannot be used, such as before `migrate` was there. */
async function isNoAnswer({ db, reachability }: SharedHome, error: unknown): Promise<boolean> {
  if (isUnknownName(error)) return !(await reachability.orAway(hasSchemaOfBuild(db)).catch(() => false));
  return error instanceof DatabaseBusy || isDatabaseUnavailable(error) || isDatabaseUnusable(error);
}

/** 503 that names whose database is away, busy, or not known to be the installation's own. */
export function jurisdictionAway(
  { jurisdictions }: Pick<Home, 'jurisdictions'>,
  cause?: unknown,
): ProblemError {
  const [jurisdiction] = jurisdictions;
  if (cause instanceof DatabaseBusy)
    return new ProblemError('temporarily_unavailable', { ...cause.options, jurisdiction });
  const why = cause instanceof GateClosed ? 'is not in use' : 'does not answer';
  return new ProblemError('temporarily_unavailable', {
    detail: `The database of ${nameOf(jurisdictions)} ${why} at this moment: try again. Calls that name another one with ?jurisdiction= do without it.`,
    retryAfterSeconds: 1,
    jurisdiction,
    cause,
  });
}

function nameOf(jurisdictions: readonly Jurisdiction[]): string {
  if (jurisdictions.length === 0) return 'the organizations';
  return `the jurisdiction${jurisdictions.length === 1 ? '' : 's'} ${jurisdictions.join(', ')}`;
}
