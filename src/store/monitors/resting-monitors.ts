// Monitors that rest, since a deadline passed while their organization was suspended (index monitor_live_rests). Nothing else
// looks at them: they have no deadline.
import type { ServiceState } from '../../domain/problem.ts';
import { isDistributed } from '../postgres/engine.ts';
import type { Queryable } from '../postgres/pool.ts';
import { type DueMonitors, readMoment } from './due-monitors.ts';
import { LIVE_COLUMNS, toLiveRow } from './live.ts';

// One look into the index for each project, however many of its monitors rest.
const RESTING = `recursive resting (project_id) as (
    (select l.project_id from monitor_live l where l.rests_since_ms is not null order by l.project_id limit 1)
    union all
    select (select l.project_id from monitor_live l
        where l.rests_since_ms is not null and l.project_id > r.project_id order by l.project_id limit 1)
      from resting r where r.project_id is not null)`;
/** On Citus, which runs no recursion over machines. */
const RESTING_IN_SHARDS = `resting (project_id) as (
    select distinct l.project_id from monitor_live l where l.rests_since_ms is not null)`;

/** Up to `limit` projects with monitors that rest, whose organization has one of these states. */
export async function findRestingProjects(
  db: Queryable,
  states: readonly ServiceState[],
  limit: number,
): Promise<string[]> {
  const { rows } = await db.query<{ project_id: string }>({
    name: 'find-resting-projects',
    text: `with ${isDistributed() ? RESTING_IN_SHARDS : RESTING}
      select p.project_id from resting r
      join projects p on p.project_id = r.project_id
      join organizations o on o.organization_id = p.organization_id
      where o.service_state = any ($1::text[]) limit $2`,
    values: [states, limit],
  });
  return rows.map((row) => row.project_id);
}

/** Locks monitors of the project that rest and that nobody else holds, at most `limit`, in key order. */
export async function claimResting(tx: Queryable, projectId: string, limit: number): Promise<DueMonitors> {
  const moment = await readMoment(tx);
  const { rows } = await tx.query({
    name: 'claim-resting',
    text: `select ${LIVE_COLUMNS} from monitor_live l
      where l.project_id = $1 and l.rests_since_ms is not null
      order by l.monitor_key limit $2 for update skip locked`,
    values: [projectId, limit],
  });
  return { ...moment, rows: rows.map(toLiveRow) };
}
