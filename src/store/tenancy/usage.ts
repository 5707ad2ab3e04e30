// usage_counters: what projects have used, by month (docs/contract/organization.md). Sweepers count: beats with the sums of
// observations (store/upkeep/piece-sums.ts), the rest in store/upkeep/usage-days.ts and rate-windows.ts. No call and no beat
// waits for it.
import type { Queryable } from '../postgres/pool.ts';

export const USAGE_DIMENSIONS = [
  'active_monitors',
  'beats',
  'deliveries',
  'stored_observations',
  'api_requests',
] as const;
export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];

/** Of one month. */
export interface UsageRecord {
  /** The month in UTC: `2026-11`. */
  period: string;
  activeMonitors: number;
  beats: number;
  deliveries: number;
  storedObservations: number;
  apiRequests: number;
}

/** The whole organization, or one project of it. */
export interface UsageOwner {
  organizationId: string;
  projectId?: string;
}

const sumOf = (dimension: UsageDimension) =>
  `coalesce(sum(u.value) filter (where u.dimension = '${dimension}'), 0)::bigint`;

const LIST = `select to_char(u.period, 'YYYY-MM') as period, ${sumOf('active_monitors')} as "activeMonitors",
    ${sumOf('beats')} as beats, ${sumOf('deliveries')} as deliveries,
    ${sumOf('stored_observations')} as "storedObservations", ${sumOf('api_requests')} as "apiRequests"
  from usage_counters u
  where u.project_id in (
      select project_id from projects where organization_id = $1 and ($2::uuid is null or project_id = $2)
      union all select $1::uuid where $2::uuid is null)
    and u.period > coalesce(to_date($3, 'YYYY-MM'), '-infinity')
  group by u.period order by u.period limit $4`;

/**
 * The records of months, the oldest first. `after`: the period of the last record of the page before. A month without a
 * count has none; the month under way has what is counted so far.
 */
export async function listUsage(
  db: Queryable,
  { organizationId, projectId }: UsageOwner,
  { after, limit }: { after?: string; limit: number },
): Promise<UsageRecord[]> {
  const { rows } = await db.query<UsageRecord>({
    name: 'list-usage',
    text: LIST,
    values: [organizationId, projectId ?? null, after ?? null, limit],
  });
  return rows;
}

/** SQL of what is counted: a FROM, and of its rows the project, the moment of its month, and the aggregate. */
export interface UsageSource {
  from: string;
  projectId: string;
  at: string;
  dimension: UsageDimension;
  value: string;
}

/** `add`: to what the month has. `most`: the month has the greatest of its days. */
const KEEP = { add: 'u.value + excluded.value', most: 'greatest(u.value, excluded.value)' };

/** SQL: the statement that counts. In key order, so that two of them never deadlock. */
export function addUsage(source: UsageSource, keep: keyof typeof KEEP = 'add'): string {
  const { from, projectId, at, dimension, value } = source;
  return `insert into usage_counters as u (project_id, period, dimension, value)
    select ${projectId}, date_trunc('month', ${at} at time zone 'UTC')::date, '${dimension}', ${value}
    from ${from} group by 1, 2 having ${value} > 0 order by 1, 2
    on conflict (project_id, period, dimension) do update set value = ${KEEP[keep]}`;
}
