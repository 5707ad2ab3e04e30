// Transactions, which run again after a serialization failure or a deadlock, and their clock: the database's, which all
// replicas share. The caller handles a lost connection.
import { codeOf, isHungConnection, SQLSTATE } from './database-error.ts';
import { NOW_MS } from './moments.ts';
import type { Connection, Database, Queryable } from './pool.ts';

const RETRYABLE: ReadonlySet<string> = new Set([SQLSTATE.serializationFailure, SQLSTATE.deadlock]);
const ATTEMPTS = 3;

/**
 * Runs `work` in one transaction (read committed) and returns its result. Runs it again, up to three times in all,
 * when Postgres asks for that (40001, 40P01): `work` must have no effect outside of the transaction.
 * A connection lost in COMMIT is not retried: the outcome is unknown, and the caller's idempotency key finds it out.
 */
export async function inTransaction<T>(
  pool: Pick<Database, 'connect'>,
  work: (tx: Connection) => Promise<T>,
): Promise<T> {
  return await run(pool, 'begin', work);
}

/** Runs `work` under settings that end with its transaction: statements `set local …`. */
export async function withSettings<T>(
  pool: Pick<Database, 'connect'>,
  settings: string,
  work: (tx: Connection) => Promise<T>,
): Promise<T> {
  return await run(pool, `begin; ${settings}`, work);
}

/** Reads several things as they were at one moment. Postgres refuses every write. */
export async function inSnapshot<T>(
  pool: Pick<Database, 'connect'>,
  work: (tx: Connection) => Promise<T>,
): Promise<T> {
  return await run(pool, 'begin isolation level repeatable read read only', work);
}

async function run<T>(
  pool: Pick<Database, 'connect'>,
  begin: string,
  work: (tx: Connection) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const tx = await pool.connect();
    let broken: Error | undefined;
    try {
      await tx.query(begin);
      const result = await work(tx);
      await tx.query('commit');
      return result;
    } catch (error) {
      // A hung connection would not answer a rollback either; when it closes the server rolls back.
      if (isHungConnection(error)) broken = error;
      else {
        await tx.query('rollback').catch((cause: Error) => {
          broken = cause;
        });
      }
      if (attempt < ATTEMPTS && RETRYABLE.has(codeOf(error) ?? '')) continue;
      throw error;
    } finally {
      tx.release(broken);
    }
  }
}

/**
 * The results of statements that were sent together on one connection. When one fails it waits for the others all the same:
 * a rollback that comes while they are under way is one statement too many.
 */
export async function allAnswered<Results extends unknown[]>(
  statements: readonly [...{ [Index in keyof Results]: Promise<Results[Index]> }],
): Promise<Results> {
  await Promise.allSettled(statements);
  return (await Promise.all(statements)) as Results;
}

/** Milliseconds since 1970, now, by the database's clock. */
export async function readNow(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ now_ms: number }>(`select ${NOW_MS} as now_ms`);
  const row = rows[0];
  if (!row) throw new Error('The database answered without a time.');
  return row.now_ms;
}
