// rate_windows: requests of all api replicas in a minute, one row per scope (project or organization).
import { isDistributed } from '../postgres/engine.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction, readNow } from '../postgres/transaction.ts';
import { addUsage } from './usage.ts';

const COUNT_CALLS = addUsage({
  from: 'unnest($1::uuid[], $2::bigint[], $3::bigint[]) as gone (project_id, window_start, used)',
  projectId: 'project_id',
  at: 'to_timestamp(window_start * 60)',
  dimension: 'api_requests',
  value: 'sum(used)',
});

export interface RateSpend {
  scopeId: string;
  /** Minutes since 1970. */
  window: number;
  /** Requests since the last settlement. */
  spent: number;
}

export interface RateTotal {
  scopeId: string;
  window: number;
  /** Requests of every replica so far. */
  used: number;
}

/** Adds what this replica has spent, and reads what all have, with the database's clock. */
export async function settleRateWindows(
  db: Queryable,
  spends: readonly RateSpend[],
): Promise<{ totals: RateTotal[]; nowMs: number }> {
  // In key order, so that two replicas that settle the same scopes never deadlock.
  const ordered = [...spends].sort((a, b) =>
    a.scopeId === b.scopeId ? a.window - b.window : a.scopeId < b.scopeId ? -1 : 1,
  );
  const { rows } = await db.query<RateTotal & { now_ms: number }>({
    name: 'settle-rate-windows',
    text: `insert into rate_windows as r (project_id, window_start, used)
      select * from unnest($1::uuid[], $2::bigint[], $3::bigint[])
      on conflict (project_id, window_start) do update set used = r.used + excluded.used
      returning project_id as "scopeId", window_start as "window", used${
        isDistributed()
          ? ''
          : `,
        ${NOW_MS} as now_ms`
      }`,
    values: [
      ordered.map((one) => one.scopeId),
      ordered.map((one) => one.window),
      ordered.map((one) => one.spent),
    ],
  });
  const totals = rows.map(({ scopeId, window, used }) => ({ scopeId, window, used }));
  // On Citus RETURNING takes no clock.
  const nowMs = isDistributed() ? await readNow(db) : rows[0]?.now_ms;
  return { totals, nowMs: nowMs ?? Date.now() };
}

/** Minutes. A window that is this old gets no counts, but of an api that had no database for so long. */
const KEPT_WINDOWS = 5;

const RETURNING = 'returning project_id as "scopeId", window_start as "window", used';

/** One that an api adds to meanwhile has another ctid: it stays for the next time. */
const RETIRE = `delete from rate_windows where ctid = any (array(
    select ctid from rate_windows where window_start < $1 order by window_start limit $2))
  ${RETURNING}`;

/** On Citus, where shards have no ctid in common: the oldest minutes, until there are about as many rows. */
const RETIRE_IN_SHARDS = `delete from rate_windows where window_start <= $1 ${RETURNING}`;

/**
 * Adds windows that are over to the usage of their months, and deletes them: the oldest `limit`, on Citus about as many
 * (index rate_windows_start). Returns how many. Both in one transaction: each window counts once, also one that comes again
 * for an api that was late.
 */
export async function retireRateWindows(pool: Pick<Database, 'connect'>, limit: number): Promise<number> {
  return await inTransaction(pool, async (tx) => {
    const endWindow = Math.floor((await readNow(tx)) / 60_000) - KEPT_WINDOWS;
    const { rows: gone } = isDistributed()
      ? await tx.query<RateTotal>(RETIRE_IN_SHARDS, [await findLastOf(tx, endWindow, limit)])
      : await tx.query<RateTotal>({
          name: 'retire-rate-windows',
          text: RETIRE,
          values: [endWindow, limit],
        });
    if (gone.length > 0)
      await tx.query(COUNT_CALLS, [
        gone.map(({ scopeId }) => scopeId),
        gone.map(({ window }) => window),
        gone.map(({ used }) => used),
      ]);
    return gone.length;
  });
}

/** The minute of the last of the oldest `limit` windows before `endWindow`. */
async function findLastOf(tx: Queryable, endWindow: number, limit: number): Promise<number> {
  const { rows } = await tx.query<{ window: number }>(
    `select window_start as "window" from rate_windows where window_start < $1
     order by rate_windows.window_start limit 1 offset $2`,
    [endWindow, limit - 1],
  );
  return rows[0]?.window ?? endWindow - 1;
}
