// What `migrate` says of a lock that it has waited for in vain: the sessions that may hold it.
import { codeOf, SQLSTATE } from './database-error.ts';
import type { Queryable } from './pool.ts';

/** Somebody else holds a lock. A later attempt may succeed. */
export class LockHeld extends Error {
  readonly code = SQLSTATE.lockNotAvailable;

  constructor(holders: readonly string[], cause: unknown) {
    const who = holders.length === 0 ? 'it is free by now' : `held by ${holders.join(', ')}`;
    super(`A lock was not free in time: ${who}.`, { cause });
    this.name = 'LockHeld';
  }
}

/** Runs `work`; where it has waited for a lock in vain it throws `LockHeld`. `lockKey`: the advisory lock of migrations. */
export async function namingHolders<Result>(
  db: Queryable,
  lockKey: number,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const { cause } = error as Error;
    if (![error, cause].some((one) => codeOf(one) === SQLSTATE.lockNotAvailable)) throw error;
    // Ends what the statement has left, if that was in a transaction.
    await db.query('rollback').catch(() => undefined);
    const holders = await findHolders(db, lockKey).catch(() => {
      throw error;
    });
    throw new LockHeld(holders, error);
  }
}

/** Sessions with locks on tables of this database, or the lock of migrations, the oldest transaction first: three at most. */
async function findHolders(db: Queryable, lockKey: number): Promise<string[]> {
  const { rows } = await db.query<{ holder: string }>(
    `select format('pid %s (%s, %s since %s)', a.pid, coalesce(nullif(a.application_name, ''), 'without a name'),
       coalesce(a.state, 'in a state that this role may not see'), coalesce(a.state_change, a.backend_start)) as holder
     from pg_stat_activity a
     where a.pid <> pg_backend_pid() and a.datname = current_database() and exists (
       select from pg_locks l where l.pid = a.pid and l.granted
         and (l.locktype = 'relation' and l.relation >= 16384
           or l.locktype = 'advisory' and l.objsubid = 1 and (l.classid::bigint << 32) + l.objid::bigint = $1))
     order by a.xact_start nulls last, a.pid limit 3`,
    [lockKey],
  );
  return rows.map(({ holder }) => holder);
}
