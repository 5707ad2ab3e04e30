// Pages of a project's monitors by name, with live status and open incidents in the same round trip. Every filter is
// in SQL, so that a page is full whatever is filtered. Relies on monitors_list and on incidents_one_open.
import type { Health, Jurisdiction, Lifecycle } from '../domain/monitor.ts';
import {
  type MonitorRecord,
  RECORD_COLUMNS,
  RECORD_FROM,
  type RecordColumns,
  toMonitorRecord,
  WITH_CLOCK,
} from './monitor-record.ts';
import { nameKeyOf } from './monitors.ts';
import type { Queryable } from './pool.ts';

export interface MonitorFilter {
  lifecycle?: Lifecycle;
  health?: Health;
  /** Every one must hold. */
  labels?: readonly { key: string; value: string }[];
  /** Ignoring case. */
  namePrefix?: string;
  jurisdiction?: Jurisdiction;
}

/**
 * The last monitor of the page before. The second form is for names that are too long for a cursor: the place of
 * that monitor now.
 */
export type MonitorPosition =
  | { nameKey: string; monitorId: string; jurisdiction: Jurisdiction }
  | { monitorKey: string };

/** As domain/health.ts decides it; a test holds the two together. */
const HEALTH = `case
    when m.lifecycle <> 'active' then m.lifecycle
    when m.maintenance_starts_at <= to_timestamp(clock.now_ms / 1000.0)
      and to_timestamp(clock.now_ms / 1000.0) < m.maintenance_ends_at then 'maintenance'
    when exists (${grave('open')}) then 'down'
    when exists (${grave('recovering')}) then 'recovering'
    when l.deadline_ms is not null
      and (l.missed_count > 0 or clock.now_ms >= l.deadline_ms - m.grace_seconds::bigint * 1000) then 'late'
    when l.first_beat_ms is null then 'waiting'
    else 'up' end`;

function grave(state: 'open' | 'recovering'): string {
  return `select from incidents i where i.project_id = m.project_id and i.monitor_key = m.monitor_key
    and i.state = '${state}' and (i.kind <> 'rule_violation' or i.severity = 'critical')`;
}

/** Only a monitor with an open incident can be so: the few that have one are found first. */
const HAS_INCIDENT: readonly Health[] = ['down', 'recovering'];

/** Reads up to `limit` monitors after `after`. Undefined: the monitor that `after` names is gone. */
export async function listMonitors(
  db: Queryable,
  projectId: string,
  filter: MonitorFilter,
  page: { limit: number; after?: MonitorPosition },
): Promise<MonitorRecord[] | undefined> {
  const values: unknown[] = [projectId];
  const add = (value: unknown) => `$${values.push(value)}`;
  const where = ['m.project_id = $1', ...filterConditions(filter, add)];
  if (page.after) {
    const place = await findPlace(db, projectId, page.after);
    if (!place) return undefined;
    const { nameKey, monitorId, jurisdiction } = place;
    where.push(
      `(m.name_key, m.monitor_id, m.jurisdiction) > (${add(nameKey)}, ${add(monitorId)}, ${add(jurisdiction)})`,
    );
  }
  const { rows } = await db.query<RecordColumns>(
    `${WITH_CLOCK} select ${RECORD_COLUMNS} ${RECORD_FROM}
     where ${where.join(' and ')}
     order by m.name_key, m.monitor_id, m.jurisdiction limit ${add(page.limit)}`,
    values,
  );
  return rows.map(toMonitorRecord);
}

function filterConditions(filter: MonitorFilter, add: (value: unknown) => string): string[] {
  const { lifecycle, health, labels, namePrefix, jurisdiction } = filter;
  const conditions: string[] = [];
  if (lifecycle) conditions.push(`m.lifecycle = ${add(lifecycle)}`);
  if (jurisdiction) conditions.push(`m.jurisdiction = ${add(jurisdiction)}`);
  for (const { key, value } of labels ?? []) {
    conditions.push(`m.labels @> ${add(JSON.stringify({ [key]: value }))}::jsonb`);
  }
  if (namePrefix) conditions.push(`m.name_key like ${add(`${escapeLike(nameKeyOf(namePrefix))}%`)}`);
  if (health) conditions.push(`${HEALTH} = ${add(health)}`);
  if (health && HAS_INCIDENT.includes(health)) {
    conditions.push(`m.monitor_key in (select i.monitor_key from incidents i
      where i.project_id = $1 and i.state in ('open', 'recovering'))`);
  }
  return conditions;
}

function escapeLike(text: string): string {
  return text.replaceAll(/[\\%_]/g, (sign) => `\\${sign}`);
}

type Place = Extract<MonitorPosition, { nameKey: string }>;

async function findPlace(
  db: Queryable,
  projectId: string,
  position: MonitorPosition,
): Promise<Place | undefined> {
  if ('nameKey' in position) return position;
  const { rows } = await db.query<{ name_key: string; monitor_id: string; jurisdiction: Jurisdiction }>(
    'select name_key, monitor_id, jurisdiction from monitors where project_id = $1 and monitor_key = $2',
    [projectId, position.monitorKey],
  );
  const row = rows[0];
  return row && { nameKey: row.name_key, monitorId: row.monitor_id, jurisdiction: row.jurisdiction };
}
