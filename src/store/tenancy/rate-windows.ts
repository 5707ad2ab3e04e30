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

/**
 * Adds windows that are over to the usage of their months, and deletes them: those of the first `minutes` that are there.
 * Returns how many. Both in one transaction: each window counts once, also one that comes again for an api that was late.
 */
export async function retireRateWindows(pool: Pick<Database, 'connect'>, minutes: number): Promise<number> {
  return await inTransaction(pool, async (tx) => {
    const { rows: gone } = await tx.query<RateTotal>(
      `delete from rate_windows where window_start < $1
         and window_start < (select min(window_start) from rate_windows) + $2
       returning project_id as "scopeId", window_start as "window", used`,
      [Math.floor((await readNow(tx)) / 60_000) - KEPT_WINDOWS, minutes],
    );
    if (gone.length > 0)
      await tx.query(COUNT_CALLS, [
        gone.map(({ scopeId }) => scopeId),
        gone.map(({ window }) => window),
        gone.map(({ used }) => used),
      ]);
    return gone.length;
  });
}
