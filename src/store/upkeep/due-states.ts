// Organizations whose service state ends by itself.
import type { Queryable } from '../postgres/pool.ts';

/** Ids, the longest due first (index organizations_due). */
export async function listDueOrganizations(db: Queryable, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select organization_id as id from organizations
     where state_due_at <= clock_timestamp() order by state_due_at limit $1`,
    [limit],
  );
  return rows.map(({ id }) => id);
}
