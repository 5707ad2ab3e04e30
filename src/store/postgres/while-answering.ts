// Work of which nobody knows how long it takes, such as a migration, on a database that may hang meanwhile: new connections
// ask whether it still answers. A slow database is not given up.
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { codeOf } from './database-error.ts';
import { connectionConfig, LimitedClient } from './pool.ts';

export interface ProbePace {
  /** Resolves when the next probe is due. `signal`: none is any more. */
  pause: (signal: AbortSignal) => Promise<unknown>;
  /** Longest wait for an answer, ms. */
  limitMs: number;
}

const EVERY_MS = 10_000;
const PACE: ProbePace = { pause: (signal) => delay(EVERY_MS, undefined, { signal }), limitMs: 5_000 };
/** One may be lost with a packet or a restart of the server. */
const MOST_FAILURES = 3;

/** The database has stopped answering: what is under way there will have no answer either. */
export class DatabaseSilent extends Error {
  constructor(cause: unknown) {
    super(`The database has stopped answering: ${MOST_FAILURES} connections in a row had no answer.`, {
      cause,
    });
    this.name = 'DatabaseSilent';
  }
}

/**
 * The result of `work`, or a `DatabaseSilent` as soon as three probes in a row have had no answer. Then the signal of `work` is
 * aborted, and nobody waits for it.
 */
export async function whileAnswering<Result>(
  databaseUrl: string,
  work: (signal: AbortSignal) => Promise<Result>,
  pace: ProbePace = PACE,
): Promise<Result> {
  const given = new AbortController();
  const over = new AbortController();
  try {
    return await Promise.race([work(given.signal), watch(databaseUrl, pace, over.signal)]);
  } catch (error) {
    if (error instanceof DatabaseSilent) given.abort();
    throw error;
  } finally {
    over.abort();
  }
}

/** Throws `DatabaseSilent`, or an `AbortError` when it is over. */
async function watch(databaseUrl: string, { pause, limitMs }: ProbePace, over: AbortSignal): Promise<never> {
  for (let failures = 0; ; ) {
    await pause(over);
    over.throwIfAborted();
    const failure = await probe(databaseUrl, limitMs);
    failures = failure === undefined ? 0 : failures + 1;
    if (failures === MOST_FAILURES) throw new DatabaseSilent(failure);
  }
}

/** Why there was no answer; undefined if there was one, a refusal too. */
async function probe(databaseUrl: string, limitMs: number): Promise<unknown> {
  const limits = { connectTimeoutMs: limitMs, statementTimeoutMs: limitMs };
  const client = new LimitedClient(
    connectionConfig({ databaseUrl, applicationName: 'beatkeeper-migrate', ...limits }),
  );
  // A connection that breaks between its statements would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('select 1');
    return undefined;
  } catch (error) {
    return isAnswer(error) ? undefined : error;
  } finally {
    client.end().catch(() => undefined);
  }
}

/** What a server says, such as that it has too many connections; but class 08 is a proxy's, of a server that does not answer. */
function isAnswer(error: unknown): boolean {
  return error instanceof pg.DatabaseError && !codeOf(error)?.startsWith('08');
}
