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
 * The answer of an earlier call with the key, wherever that worked, else where this one works. Throws `idempotency_conflict`
 * where another request has used the key, in a database that is not away; `temporarily_unavailable` where one is away that
 * may have the answer; and as `findHome` does.
 */
export async function findKeyedHome(
  homes: Homes,
  aim: Aim,
  guard: IdempotencyGuard,
): Promise<Replay | SharedHome> {
  const answers = await Promise.all(
    homes.map(async (home) => await askHome(home, (db) => readKnown(db, { home, aim, guard }))),
  );
  return decide(aim, new Map(homes.map((home, index) => [home, answers[index] as Asked<Known>])));
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
  if (known.some(({ key }) => key === 'of_another_request')) throw keyOfAnotherRequest();
  const away = (home: SharedHome) => {
    const answer = answers.get(home);
    return answer && 'fault' in answer ? jurisdictionAway(home, answer.fault) : undefined;
  };
  if ('home' in aim) {
    const problem = away(aim.home);
    if (problem) throw problem;
    return aim.home;
  }
  const [home, second] = aim.asked.filter((one) => {
    const answer = answers.get(one);
    return answer && 'found' in answer && answer.found.hasIt;
  });
  // Also where two have it: a refusal for good would deny what a call has done in the third one.
  const [problem] = home && aim.isInOne ? [] : aim.asked.flatMap((one) => away(one) ?? []);
  if (problem) throw problem;
  if (second) throw inTwoJurisdictions();
  if (!home) throw notFound();
  return home;
}
