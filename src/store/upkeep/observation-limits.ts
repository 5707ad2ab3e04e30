// Deletes observations that the plan of their organization does not keep as long as their partition (domain/retention.ts):
// those of days that are summed up, the oldest of a monitor first, so that its sequences have no gaps. A statement looks at
// some monitors of one project and deletes a few rows of each.
import { fromMillis } from '../postgres/moments.ts';
import type { Connection, Queryable } from '../postgres/pool.ts';

export interface ProjectPlan {
  projectId: string;
  planId: string;
}

/** The first project after `afterId`. */
export async function findNextProject(
  db: Queryable,
  afterId: string | undefined,
): Promise<ProjectPlan | undefined> {
  const { rows } = await db.query<ProjectPlan>({
    name: 'find-next-project-plan',
    text: `select p.project_id as "projectId", o.plan as "planId"
      from projects p join organizations o on o.organization_id = p.organization_id
      where $1::uuid is null or p.project_id > $1 order by p.project_id limit 1`,
    values: [afterId ?? null],
  });
  return rows[0];
}

export interface LimitedPage {
  projectId: string;
  /** Monitors after this one. */
  afterKey: string | undefined;
  /** What was received before goes; undefined where partitions go as early. */
  keptFromMs: number | undefined;
  /** So many observations of each monitor stay. */
  storedObservations: number;
  /** Days before it are summed up. */
  summedMs: number;
  monitors: number;
  /** Of each monitor. */
  observations: number;
}

export interface LimitedRows {
  /** How many were deleted. Where there are some, the same monitors may have more. */
  deleted: number;
  /** The last monitor of the page, and whether there may be another one after it. */
  lastKey: string | undefined;
  isFull: boolean;
}

/** Found by index: a plan by the sizes of tables would read all partitions. */
const BY_INDEX = `set local jit = off; set local enable_seqscan = off; set local enable_bitmapscan = off;
  set local enable_hashjoin = off; set local enable_mergejoin = off`;

const NO_KEY = '00000000-0000-0000-0000-000000000000';

const DELETE = `with page as materialized (
    select monitor_key, last_sequence from monitor_live
    where project_id = $1 and monitor_key > $2 order by monitor_key limit $3),
  over as materialized (
    select p.monitor_key, f.sequence as first, p.last_sequence - $5::bigint as upto
    from page p cross join lateral (
      select o.sequence, o.received_at from observations o
      where o.project_id = $1 and o.monitor_key = p.monitor_key and o.received_at < ${fromMillis('$6')}
      order by o.sequence limit 1) f
    where ($4::bigint is not null or p.last_sequence > $5::bigint)
      and (f.received_at < ${fromMillis('$4::bigint')} or f.sequence <= p.last_sequence - $5::bigint)),
  gone as (
    delete from observations o using over
    where o.project_id = $1 and o.monitor_key = over.monitor_key and o.received_at < ${fromMillis('$6')}
      and o.sequence >= over.first and o.sequence < over.first + $7::bigint
      and (o.received_at < ${fromMillis('$4::bigint')} or o.sequence <= over.upto)
    returning 1)
  select (select count(*) from gone)::integer as deleted, (select count(*) from page)::integer as seen,
    (select monitor_key from page order by monitor_key desc limit 1) as "lastKey"`;

export async function deleteBeyondPlan(tx: Connection, page: LimitedPage): Promise<LimitedRows> {
  await tx.query(BY_INDEX);
  const { rows } = await tx.query<{ deleted: number; seen: number; lastKey: string | null }>({
    name: 'delete-beyond-plan',
    text: DELETE,
    values: [
      ...[page.projectId, page.afterKey ?? NO_KEY, page.monitors, page.keptFromMs ?? null],
      ...[page.storedObservations, page.summedMs, page.observations],
    ],
  });
  const { deleted = 0, seen = 0, lastKey } = rows[0] ?? {};
  return { deleted, lastKey: lastKey ?? undefined, isFull: seen === page.monitors };
}
