// rate_windows: requests of all api replicas in a minute, one row per scope (project or organization).
import { NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

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
  const ordered = [...spends].sort((a, b) => (a.scopeId < b.scopeId ? -1 : 1));
  const { rows } = await db.query<RateTotal & { now_ms: number }>({
    name: 'settle-rate-windows',
    text: `insert into rate_windows as r (project_id, window_start, used)
      select * from unnest($1::uuid[], $2::bigint[], $3::bigint[])
      on conflict (project_id, window_start) do update set used = r.used + excluded.used
      returning project_id as "scopeId", window_start as "window", used,
        ${NOW_MS} as now_ms`,
    values: [
      ordered.map((one) => one.scopeId),
      ordered.map((one) => one.window),
      ordered.map((one) => one.spent),
    ],
  });
  const totals = rows.map(({ scopeId, window, used }) => ({ scopeId, window, used }));
  return { totals, nowMs: rows[0]?.now_ms ?? Date.now() };
}

/** Deletes windows in which no api counts any more. */
export async function deleteRateWindows(db: Queryable, before: number): Promise<void> {
  await db.query('delete from rate_windows where window_start < $1', [before]);
}
