// Counts what projects have used on a day that is over (store/tenancy/usage.ts): deliveries, and how many monitors and
// observations there are. A step counts some projects and is one transaction, which also writes how far it went: each
// project's day counts once, whoever takes it, and is taken again if it did not commit.
import { firstIdAt } from '../../domain/id.ts';
import type { FindPlan } from '../../domain/plan.ts';
import { PLAN_IDS } from '../../domain/problem.ts';
import { DAY_MS, keptFromMs } from '../../domain/retention.ts';
import { BEAT_GAP } from '../../domain/series.ts';
import { fromMillis, millis } from '../postgres/moments.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';
import { addUsage } from '../tenancy/usage.ts';

/** A transaction that has read the clock before the end of a day has ended long before this is over. */
const GRACE = "interval '10 minutes'";

interface Place {
  fromMs: number;
  toMs: number;
  done: string | null;
}

/** Counts the next `limit` projects. `waiting`: no day is over. */
export async function countUsageStep(
  pool: Pick<Database, 'connect'>,
  { findPlan, limit }: { findPlan: FindPlan; limit: number },
): Promise<'worked' | 'waiting'> {
  return await inTransaction(pool, async (tx) => {
    const place = await lockPlace(tx);
    if (!place) return 'waiting';
    const projectIds = await findProjects(tx, place, limit);
    const last = projectIds.at(-1);
    if (last === undefined) {
      await tx.query('update usage_count set day = $1, done_project_id = null', [new Date(place.toMs)]);
      return 'worked';
    }
    await countProjects(tx, projectIds, place, findPlan);
    await tx.query('update usage_count set done_project_id = $1', [last]);
    return 'worked';
  });
}

/** Another process that counts at once waits here, and goes on after it. */
async function lockPlace(tx: Queryable): Promise<Place | undefined> {
  const { rows } = await tx.query<{ from_ms: number; done: string | null }>(
    `select ${millis('day')} as from_ms, done_project_id as done from usage_count
     where clock_timestamp() >= day + interval '24 hours' + ${GRACE} for update`,
  );
  return rows.map(({ from_ms: fromMs, done }) => ({ fromMs, toMs: fromMs + DAY_MS, done }))[0];
}

async function findProjects(tx: Queryable, { done }: Place, limit: number): Promise<string[]> {
  const { rows } = await tx.query<{ project_id: string }>(
    `select project_id from projects where $1::uuid is null or project_id > $1 order by project_id limit $2`,
    [done, limit],
  );
  return rows.map((row) => row.project_id);
}

const DAY = fromMillis('$2');
const ofProject = { projectId: 'project_id', at: DAY } as const;

// Ids are made from the time: the primary key finds those of a day.
const DELIVERIES = addUsage({
  ...ofProject,
  dimension: 'deliveries',
  value: 'count(*)',
  from: `deliveries where project_id = any($1::uuid[]) and delivery_id >= $3 and delivery_id < $4`,
});

const MONITORS = addUsage(
  {
    ...ofProject,
    dimension: 'active_monitors',
    value: 'count(*)',
    from: `monitors where project_id = any($1::uuid[]) and lifecycle <> 'archived'`,
  },
  'most',
);

// Sequences have no gaps: the first observation that is kept says how many there are. Hours that are summed up know the
// first one of theirs; of later ones the table is asked, day by day.
const FIRST_KEPT = `coalesce(
    (select b.first_sequence from observation_buckets b
      where b.project_id = l.project_id and b.monitor_key = l.monitor_key and b.measurement = '${BEAT_GAP}'
        and b.bucket_start >= ${fromMillis('t.kept_ms')} order by b.bucket_start limit 1),
    (select o.sequence from observations o where o.project_id = l.project_id and o.monitor_key = l.monitor_key
        and o.received_at >= ${DAY} order by o.sequence limit 1))`;

const OBSERVATIONS = addUsage(
  {
    ...ofProject,
    dimension: 'stored_observations',
    value: 'sum(kept)',
    from: `(select l.project_id, least(t.stored, coalesce(l.last_sequence - ${FIRST_KEPT} + 1, 0)) as kept
      from monitor_live l join projects p on p.project_id = l.project_id
      join organizations o on o.organization_id = p.organization_id
      join unnest($3::text[], $4::bigint[], $5::bigint[]) as t (plan, kept_ms, stored)
        on t.plan = case when o.plan = any($3::text[]) then o.plan else $6 end
      where l.project_id = any($1::uuid[]) and l.last_sequence > 0) stored`,
  },
  'most',
);

async function countProjects(
  tx: Queryable,
  projectIds: readonly string[],
  { fromMs, toMs }: Place,
  findPlan: FindPlan,
): Promise<void> {
  const plans = PLAN_IDS.map(findPlan);
  await tx.query(DELIVERIES, [projectIds, fromMs, firstIdAt('dlv', fromMs), firstIdAt('dlv', toMs)]);
  await tx.query(MONITORS, [projectIds, fromMs]);
  await tx.query(OBSERVATIONS, [
    projectIds,
    fromMs,
    plans.map(({ id }) => id),
    plans.map(({ observationRetentionSeconds }) => keptFromMs(toMs, observationRetentionSeconds * 1000)),
    plans.map(({ storedObservations }) => storedObservations),
    findPlan('').id,
  ]);
}
