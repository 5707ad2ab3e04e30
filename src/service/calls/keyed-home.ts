// Where a call with an idempotency key works in an installation with several databases. The record of a key is in the
// database in which its call worked, and nothing else remembers where that was (docs/adr/0013). So a call is done only where
// every database that may have its record has said that it has none.
import { notFound } from '../../domain/problem.ts';
import type { Database } from '../../store/postgres/pool.ts';
import {
  type IdempotencyGuard,
  type KnownKey,
  keyOfAnotherRequest,
  lookUpKey,
  type Replay,
} from '../../store/tenancy/idempotency.ts';
import {
  type Asked,
  askHome,
  type Homes,
  inTwoJurisdictions,
  jurisdictionAway,
  type Look,
  type SharedHome,
} from './homes.ts';

/** How a call says in which database it works. The same request always says the same. */
export type Aim =
  | { home: SharedHome }
  | {
      /** Those that may have what it names. */
      asked: readonly SharedHome[];
      look: Look;
      /** Whether no two of them can have it, at any time. */
      isInOne: boolean;
    };

/** What a database knows of a call. */
export interface Known {
  /** Whether it has what the call names. */
  hasIt: boolean;
  key: KnownKey;
}

/**
 * The answer of an earlier call with the key, wherever that worked, else where this one works. Throws
 * `temporarily_unavailable` where a database is away that may have the answer, else `idempotency_conflict` where another request
 * has used the key, in a database that is not away, and as `findOnlyHome` does.
 */
export async function findKeyedHome(
  homes: Homes,
  aim: Aim,
  guard: IdempotencyGuard,
): Promise<Replay | SharedHome> {
  const replayed = Promise.withResolvers<Replay>();
  const ask = async (home: SharedHome): Promise<[SharedHome, Asked<Known>]> => {
    const answer = await askHome(home, (db) => readKnown(db, { home, aim, guard }));
    // It is certain: nobody waits for the others.
    if ('found' in answer && typeof answer.found.key === 'object') replayed.resolve(answer.found.key);
    return [home, answer];
  };
  const decided = Promise.all(homes.map(ask)).then((answers) => decide(aim, new Map(answers)));
  return await Promise.race([replayed.promise, decided]);
}

/**
 * First the thing, then the key. A call that worked here found the thing here: where that is gone, the record of such a call
 * is there before the key is looked up.
 */
async function readKnown(
  db: Database,
  { home, aim, guard }: { home: SharedHome; aim: Aim; guard: IdempotencyGuard },
): Promise<Known> {
  const hasIt = 'look' in aim && aim.asked.includes(home) && (await aim.look(db));
  return { hasIt, key: await lookUpKey(db, guard) };
}

/** As `findKeyedHome`, of what the databases have said, all of them. */
export function decide(aim: Aim, answers: ReadonlyMap<SharedHome, Asked<Known>>): Replay | SharedHome {
  const known = [...answers.values()].flatMap((answer) => ('found' in answer ? [answer.found] : []));
  // A key may have two records: one was used while the database of the other one was away. Each request finds its own.
  const replay = known.map(({ key }) => key).find((key) => typeof key === 'object');
  if (replay) return replay;
  const [home, second] = foundBy(aim, answers);
  // Before any refusal for good: that would deny what a call has done there.
  for (const one of mayHaveAnswer(aim, home)) {
    const answer = answers.get(one);
    if (answer && 'fault' in answer) throw jurisdictionAway(one, answer.fault);
  }
  if (known.some(({ key }) => key === 'of_another_request')) throw keyOfAnotherRequest();
  if (second) throw inTwoJurisdictions();
  if (!home) throw notFound();
  return home;
}

/** Where the call works, as far as the databases have answered. */
function foundBy(aim: Aim, answers: ReadonlyMap<SharedHome, Asked<Known>>): readonly SharedHome[] {
  if ('home' in aim) return [aim.home];
  return aim.asked.filter((one) => {
    const answer = answers.get(one);
    return answer && 'found' in answer && answer.found.hasIt;
  });
}

/** Where the same call may have worked before, by right. */
function mayHaveAnswer(aim: Aim, found: SharedHome | undefined): readonly SharedHome[] {
  if ('home' in aim) return [aim.home];
  return found && aim.isInOne ? [found] : aim.asked;
}
