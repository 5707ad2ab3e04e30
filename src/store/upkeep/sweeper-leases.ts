// Work that one sweeper at a time does, at most once a period: one row each in sweeper_leases. A lease is a time and
// not a lock: a holder that dies is replaced when its lease ends, and two holders that overlap must do no harm.
import type { Queryable } from '../postgres/pool.ts';

export interface LeaseClaim {
  name: string;
  owner: string;
  /** How long the lease lasts without a renewal. */
  leaseMs: number;
  /** The work is due again after this time. */
  everyMs: number;
}

const after = (parameter: string) => `clock_timestamp() + ${parameter} * interval '1 millisecond'`;

/** Takes the lease if it is free and the work is due. */
export async function claimLease(db: Queryable, claim: LeaseClaim): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'claim-lease',
    text: `insert into sweeper_leases as l (name, owner, until_at) values ($1, $2, ${after('$3')})
      on conflict (name) do update set owner = excluded.owner, until_at = excluded.until_at
      where l.until_at <= clock_timestamp()
        and (l.last_done_at is null or l.last_done_at <= clock_timestamp() - $4 * interval '1 millisecond')`,
    values: [claim.name, claim.owner, claim.leaseMs, claim.everyMs],
  });
  return rowCount === 1;
}

/** Renews the lease; false when it belongs to another holder now. */
export async function renewLease(
  db: Queryable,
  lease: Pick<LeaseClaim, 'name' | 'owner' | 'leaseMs'>,
): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'renew-lease',
    text: `update sweeper_leases set until_at = ${after('$3')} where name = $1 and owner = $2`,
    values: [lease.name, lease.owner, lease.leaseMs],
  });
  return rowCount === 1;
}

/** Gives the lease back; `done`: the work was completed. */
export async function releaseLease(
  db: Queryable,
  lease: Pick<LeaseClaim, 'name' | 'owner'>,
  done: boolean,
): Promise<void> {
  await db.query({
    name: 'release-lease',
    text: `update sweeper_leases set until_at = clock_timestamp(),
        last_done_at = case when $3 then clock_timestamp() else last_done_at end
      where name = $1 and owner = $2`,
    values: [lease.name, lease.owner, done],
  });
}
