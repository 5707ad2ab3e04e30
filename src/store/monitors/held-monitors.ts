// Monitors with held or suppressed alerts whose wake does not come, or comes late. It only sets wakes: the sweep of deadlines
// decides under the lock of the live row.
import { SERVED_STATES } from '../../domain/plan.ts';
import { isDistributed } from '../postgres/engine.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

/**
 * Sets the wakes of at most `limit` monitors and returns how many. Rows that somebody holds are passed over, so it waits for no
 * lock and is part of no deadlock. Indexes monitor_live_hold and incidents_waiting have few rows: those of monitors that depend
 * on others, or that an operator beats, and are in trouble. On Citus, where it would lock rows of many shards, it does nothing: there a suppressed incident
 * asks about its cause by itself, every ten minutes.
 */
export async function wakeHeld(db: Queryable, limit: number): Promise<number> {
  if (isDistributed()) return 0;
  const { rowCount } = await db.query({
    name: 'wake-held-monitors',
    text: `with moment as materialized (select ${NOW_MS} as now_ms),
      late as (
        select l.project_id, l.monitor_key, l.hold_ms as at_ms from monitor_live l
        where l.hold_ms is not null and (l.wake_ms is null or l.wake_ms > l.hold_ms)),
      released as (
        select i.project_id, i.monitor_key, moment.now_ms as at_ms
        from moment, incidents i
        join incidents c on c.project_id = i.project_id and c.incident_id = i.suppressed_by ->> 'incidentId'
        where i.suppressed_by is not null and i.held_until is null and i.state in ('open', 'recovering')
          and (c.state in ('recovered', 'resolved') or not exists (
            select from monitors cm
            where cm.project_id = c.project_id and cm.monitor_key = c.monitor_key and cm.lifecycle = 'active'))),
      uncaused as (
        select i.project_id, i.monitor_key, moment.now_ms as at_ms from moment, incidents i
        where i.suppressed_by is not null and i.held_until is null and i.state in ('open', 'recovering')
          and i.suppressed_by ? 'causeId'
          and not exists (
            select from monitors cm
            join caused_monitors o on o.project_id = cm.project_id and o.monitor_key = cm.monitor_key
              and o.operator_id = cm.beaten_by collate "C"
            where cm.project_id = i.project_id and cm.monitor_key = i.monitor_key and o.ended_ms is null
              and o.cause_id::text = i.suppressed_by ->> 'causeId')),
      due as (
        select l.project_id, l.monitor_key, f.at_ms
        from (select * from late union all select * from released union all select * from uncaused) f
        join monitor_live l on l.project_id = f.project_id and l.monitor_key = f.monitor_key
        join monitors m on m.project_id = f.project_id and m.monitor_key = f.monitor_key and m.lifecycle = 'active'
        join projects p on p.project_id = m.project_id
        join organizations o on o.organization_id = p.organization_id and o.service_state = any ($2::text[])
        where l.hold_ms is not null and (l.wake_ms is null or l.wake_ms > f.at_ms)
        limit $1
        for update of l skip locked)
      update monitor_live l set wake_ms = greatest(d.at_ms, moment.now_ms), hold_ms = least(l.hold_ms, d.at_ms)
      from moment, (select project_id, monitor_key, min(at_ms) as at_ms from due group by 1, 2) d
      where l.project_id = d.project_id and l.monitor_key = d.monitor_key`,
    values: [limit, SERVED_STATES],
  });
  return rowCount ?? 0;
}
