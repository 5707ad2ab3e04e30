// Deletes observations that the plan of their organization does not keep as long as their partition (domain/retention.ts):
// those of days that are summed up, the oldest of a monitor first, so that its sequences have no gaps. A statement looks at
// some monitors of one project and deletes a few rows of each.
import { fromMillis } from '../postgres/moments.ts';
import type { Connection, Queryable } from '../postgres/pool.ts';

/** The first project after `afterId`. */
export async function findNextProject(
  db: Queryable,
  afterId: string | undefined,
): Promise<string | undefined> {
  const { rows } = await db.query<{ projectId: string }>({
    name: 'find-next-project-of-limits',
    text: `select project_id as "projectId" from projects
      where $1::uuid is null or project_id > $1 order by project_id limit 1`,
    values: [afterId ?? null],
  });
  return rows[0]?.projectId;
}

/** The plan that the project's organization is on. Undefined: the project is gone. */
export async function findPlanId(db: Queryable, projectId: string): Promise<string | undefined> {
  const { rows } = await db.query<{ planId: string }>({
    name: 'find-plan-of-project',
    text: `select o.plan as "planId" from projects p join organizations o on o.organization_id = p.organization_id
      where p.project_id = $1`,
    values: [projectId],
  });
  return rows[0]?.planId;
}

/** The first monitor of the project after `afterKey`. */
export async function findNextKey(
  db: Queryable,
  projectId: string,
  afterKey: string | undefined,
): Promise<string | undefined> {
  const { rows } = await db.query<{ monitorKey: string }>({
    name: 'find-next-monitor-of-limits',
    text: `select monitor_key as "monitorKey" from monitor_live
      where project_id = $1 and monitor_key > $2 order by monitor_key limit 1`,
    values: [projectId, afterKey ?? NO_KEY],
  });
  return rows[0]?.monitorKey;
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
  /** Of monitors of the page: the sequence from which on there may be something to delete. Others: from the first on. */
  from: ReadonlyMap<string, number>;
}

export interface LimitedRows {
  /** How many were deleted. Where there are some, the same monitors may have more. */
  deleted: number;
  /** The last monitor of the page, and whether there may be another one after it. */
  lastKey: string | undefined;
  isFull: boolean;
  /** `from` of the same page after it. */
  next: Map<string, number>;
}

/** Found by index: a plan by the sizes of tables would read all partitions. */
const BY_INDEX = `set local jit = off; set local enable_seqscan = off; set local enable_bitmapscan = off;
  set local enable_hashjoin = off; set local enable_mergejoin = off`;

const NO_KEY = '00000000-0000-0000-0000-000000000000';

const DELETE = `with page as materialized (
    select monitor_key, last_sequence from monitor_live
    where project_id = $1 and monitor_key > $2 order by monitor_key limit $3),
  places as materialized (
    select p.monitor_key, p.last_sequence, coalesce(b.sequence, 0) as sequence
    from page p left join unnest($8::uuid[], $9::bigint[]) as b (monitor_key, sequence)
      on b.monitor_key = p.monitor_key),
  over as materialized (
    select p.monitor_key, f.sequence as first, p.last_sequence - $5::bigint as upto
    from places p cross join lateral (
      select o.sequence, o.received_at from observations o
      where o.project_id = $1 and o.monitor_key = p.monitor_key and o.received_at < ${fromMillis('$6')}
        and o.sequence >= p.sequence
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
    (select monitor_key from page order by monitor_key desc limit 1) as "lastKey",
    (select json_object_agg(monitor_key, first + $7::bigint) from over) as next`;

export async function deleteBeyondPlan(tx: Connection, page: LimitedPage): Promise<LimitedRows> {
  await tx.query(BY_INDEX);
  const { rows } = await tx.query<{
    deleted: number;
    seen: number;
    lastKey: string | null;
    next: Record<string, number> | null;
  }>({
    name: 'delete-beyond-plan',
    text: DELETE,
    values: [
      ...[page.projectId, page.afterKey ?? NO_KEY, page.monitors, page.keptFromMs ?? null],
      ...[page.storedObservations, page.summedMs, page.observations],
      ...[[...page.from.keys()], [...page.from.values()]],
    ],
  });
  const { deleted = 0, seen = 0, lastKey, next } = rows[0] ?? {};
  return {
    deleted,
    lastKey: lastKey ?? undefined,
    isFull: seen === page.monitors,
    next: new Map(Object.entries(next ?? {})),
  };
}
