// Monitors that rest, since a deadline passed while their organization was suspended (index monitor_live_rests). Nothing else
// looks at them: they have no deadline.
import type { ServiceState } from '../../domain/problem.ts';
import { isDistributed } from '../postgres/engine.ts';
import type { Queryable } from '../postgres/pool.ts';
import { type DueMonitors, readMoment } from './due-monitors.ts';
import { LIVE_COLUMNS, toLiveRow } from './live.ts';

// One look into the index for each project, however many of its monitors rest. $2: those after this project; $3: at most.
const RESTING = `recursive resting (project_id, place) as (
    (select l.project_id, 1 from monitor_live l where l.rests_since_ms is not null and l.project_id > $2
      order by l.project_id limit 1)
    union all
    select (select l.project_id from monitor_live l
        where l.rests_since_ms is not null and l.project_id > r.project_id order by l.project_id limit 1), r.place + 1
      from resting r where r.project_id is not null and r.place < $3)`;
/** On Citus, which runs no recursion over machines. */
const RESTING_IN_SHARDS = `resting (project_id) as (
    select distinct l.project_id from monitor_live l where l.rests_since_ms is not null and l.project_id > $2
    order by l.project_id limit $3)`;

/** Before every other id. */
const FIRST_ID = '00000000-0000-0000-0000-000000000000';

export interface RestingProjects {
  /** Those whose organization has one of the states. */
  projectIds: readonly string[];
  /** The last project of the page, whatever its state: where the next page begins. Undefined: this page is the last one. */
  lastId?: string;
}

/**
 * A page of the projects with monitors that rest, in the order of ids, `looks` of them at most, after the project `afterId`
 * (undefined: from the first one); of these it tells those whose organization has one of the `states`.
 */
export async function findRestingProjects(
  db: Queryable,
  states: readonly ServiceState[],
  { afterId = FIRST_ID, looks }: { afterId?: string; looks: number },
): Promise<RestingProjects> {
  const { rows } = await db.query<{ project_id: string; is_found: boolean | null }>({
    name: 'find-resting-projects',
    text: `with ${isDistributed() ? RESTING_IN_SHARDS : RESTING}
      select r.project_id, o.service_state = any ($1::text[]) as is_found from resting r
      left join projects p on p.project_id = r.project_id
      left join organizations o on o.organization_id = p.organization_id
      where r.project_id is not null order by r.project_id`,
    values: [states, afterId, looks],
  });
  const projectIds = rows.filter((row) => row.is_found).map((row) => row.project_id);
  return { projectIds, lastId: rows.length < looks ? undefined : rows.at(-1)?.project_id };
}

export interface RestingClaim {
  projectId: string;
  /** Only monitors after this one, in the order of keys. Undefined: from the first one. */
  afterKey?: string;
  /** Rows at most. */
  limit: number;
}

/** Locks monitors of the project that rest and that nobody else holds, in the order of keys. None before the first api ran. */
export async function claimResting(
  tx: Queryable,
  { projectId, afterKey = FIRST_ID, limit }: RestingClaim,
): Promise<DueMonitors> {
  const moment = await readMoment(tx);
  if (moment.horizonMs === undefined) return { ...moment, rows: [] };
  const { rows } = await tx.query({
    name: 'claim-resting',
    text: `select ${LIVE_COLUMNS} from monitor_live l
      where l.project_id = $1 and l.rests_since_ms is not null and l.monitor_key > $2
      order by l.monitor_key limit $3 for update skip locked`,
    values: [projectId, afterKey, limit],
  });
  return { ...moment, rows: rows.map(toLiveRow) };
}
