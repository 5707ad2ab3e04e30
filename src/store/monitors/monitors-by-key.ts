// The monitors of a project by key, which never changes: who walks through all of them neither skips nor repeats one.
import type { Queryable } from '../postgres/pool.ts';
import { type MonitorRecord, SELECT_RECORDS, toMonitorRecord } from './monitor-record.ts';

/** In the order of their keys. `after`: the key of the last one of the page before. */
export async function listMonitorsByKey(
  db: Queryable,
  projectId: string,
  { after, limit }: { after?: string; limit: number },
): Promise<MonitorRecord[]> {
  const { rows } = await db.query({
    name: 'list-monitors-by-key',
    text: `${SELECT_RECORDS} where m.project_id = $1 and m.monitor_key > $2 order by m.monitor_key limit $3`,
    values: [projectId, after ?? BEFORE_ALL, limit],
  });
  return rows.map(toMonitorRecord);
}

/** The nil UUID, which no monitor has. */
export const BEFORE_ALL = '00000000-0000-0000-0000-000000000000';
