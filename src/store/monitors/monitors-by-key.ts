// The monitors of a project by key, which never changes: who walks through all of them neither skips nor repeats one.
import { isDistributed } from '../postgres/engine.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { type MonitorRecord, SELECT_RECORDS, toMonitorRecord } from './monitor-record.ts';

/** SQL: whether a monitor `m` was made no later than `ms`. */
export const madeUntil = (ms: string) => `m.created_at < ${fromMillis(`(${ms}::bigint + 1)`)}`;

/**
 * In the order of their keys. `after`: the key of the last one of the page before. A monitor that was made after
 * `madeUntilMs` is left out: it may have the id of one that was deleted.
 */
export async function listMonitorsByKey(
  db: Queryable,
  projectId: string,
  { after, madeUntilMs, limit }: { after?: string; madeUntilMs: number; limit: number },
): Promise<MonitorRecord[]> {
  const { rows } = await db.query({
    name: 'list-monitors-by-key',
    text: `${SELECT_RECORDS} where m.project_id = $1 and m.monitor_key > $2 and ${madeUntil('$4')}
      order by m.monitor_key limit $3`,
    values: [projectId, after ?? BEFORE_ALL, limit, madeUntilMs],
  });
  return rows.map(toMonitorRecord);
}

/**
 * The first monitor of each of these projects, however many it has: ORDER asks for the primary key, where a scan of the
 * table would look cheap.
 */
const WITH_MONITORS = `select p.id from unnest($1::uuid[]) p (id)
  cross join lateral (select from monitors m where m.project_id = p.id order by m.monitor_key limit 1) m`;

/** On Citus nothing may be asked of each row of a function. */
const WITH_MONITORS_IN_SHARDS =
  'select distinct project_id as id from monitors where project_id = any($1::uuid[])';

/** Of these projects, those that have monitors. */
export async function findProjectsWithMonitors(
  db: Queryable,
  projectIds: readonly string[],
): Promise<Set<string>> {
  const { rows } = await db.query<{ id: string }>({
    name: 'find-projects-with-monitors',
    text: isDistributed() ? WITH_MONITORS_IN_SHARDS : WITH_MONITORS,
    values: [projectIds],
  });
  return new Set(rows.map(({ id }) => id));
}

/** The nil UUID, which no monitor has. */
export const BEFORE_ALL = '00000000-0000-0000-0000-000000000000';
