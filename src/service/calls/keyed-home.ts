// Where a call with an idempotency key works in an installation with several databases. The record of a key is in the
// database in which its call worked, and nothing else remembers where that was (docs/adr/0013). So a call is done only where
// every database that may have its record has said that it has none.
import { notFound } from '../../domain/problem.ts';
import { afterReading } from '../../store/postgres/after-reading.ts';
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

/** For a database that can only know that the key was misused. */
const MISUSE_WAIT_MS = 1_000;

/**
 * The answer of an earlier call with the key, wherever that worked, else where this one works. Throws
 * `temporarily_unavailable` where a database is away that may have the answer, else `idempotency_conflict` where another request
 * has used the key, in a database that is neither away nor slow, and as `findOnlyHome` does.
 */
export async function findKeyedHome(
  homes: Homes,
  aim: Aim,
  guard: IdempotencyGuard,
): Promise<Replay | SharedHome> {
  const answers = new Map<SharedHome, Asked<Known>>();
  const enough = Promise.withResolvers<void>();
  let limit: NodeJS.Timeout | undefined;
  const asked = homes.map(async (home) => {
    answers.set(home, await askHome(home, (db) => readKnown(db, { home, aim, guard })));
    const left = whoIsLeft(aim, answers);
    if (left === 'nobody') enough.resolve();
    // The answers may wait in their sockets, because the event loop has stood still.
    if (left === 'misuse') limit ??= setTimeout(() => afterReading(enough.resolve), MISUSE_WAIT_MS);
  });
  try {
    await Promise.race([enough.promise, Promise.all(asked)]);
  } finally {
    clearTimeout(limit);
  }
  return decide(aim, answers);
}

/** Whom a call waits for: those who may have its answer, then those who may know that its key was misused. */
function whoIsLeft(aim: Aim, answers: Answers): 'answer' | 'misuse' | 'nobody' {
  const keys = knownOf(answers).map(({ key }) => key);
  if (keys.some((key) => typeof key === 'object')) return 'nobody';
  const [home] = foundBy(aim, answers);
  const needed = mayHaveAnswer(aim, home).map((one) => answers.get(one));
  if (needed.includes(undefined)) return 'answer';
  const isRefused =
    keys.includes('of_another_request') || needed.some((answer) => answer && 'fault' in answer);
  return isRefused ? 'nobody' : 'misuse';
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

type Answers = ReadonlyMap<SharedHome, Asked<Known>>;

const knownOf = (answers: Answers): Known[] =>
  [...answers.values()].flatMap((answer) => ('found' in answer ? [answer.found] : []));

/** As `findKeyedHome`, of what the databases have said: of those who may have the answer all, if there is no replay. */
export function decide(aim: Aim, answers: Answers): Replay | SharedHome {
  const known = knownOf(answers);
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
function foundBy(aim: Aim, answers: Answers): readonly SharedHome[] {
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
