// Pages of a project's monitors by name, with live status and open incidents in the same round trip. SQL applies every
// filter. A filter without an index scans bounded stretches of the list, one after the other, so the cost of a page is
// bounded in a project of any size.
import type { Health, Jurisdiction, Lifecycle } from '../../domain/monitor.ts';
import type { Origin } from '../../domain/origin.ts';
import { type Condition, ListQuery, sizeFor } from '../postgres/keyset.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { type MonitorRecord, SELECT_RECORDS, toMonitorRecord, WITH_CLOCK } from './monitor-record.ts';
import { nameKeyOf } from './monitors.ts';

export interface MonitorFilter {
  lifecycle?: Lifecycle;
  health?: Health;
  /** A monitor must have all of them. */
  labels?: readonly { key: string; value: string }[];
  /** Ignoring case. */
  namePrefix?: string;
  jurisdiction?: Jurisdiction;
  /** `orphaned`: without archived ones. */
  origin?: Origin | 'orphaned';
}

/** A position in the list. */
export interface MonitorPosition {
  nameKey: string;
  monitorId: string;
  jurisdiction: Jurisdiction;
}

export interface MonitorPage {
  monitors: MonitorRecord[];
  /** Where the next page begins; absent on the last one. */
  next?: MonitorPosition;
}

/** Monitors that one statement scans for a filter without an index. */
const STRETCH = 5_000;
/** Stretches that one call scans: then the page ends, full or not. */
const MAX_STRETCHES = 8;

/** Reads a page of at most `limit` monitors. It may be shorter and still have a `next`. */
export async function listMonitors(
  db: Queryable,
  projectId: string,
  filter: MonitorFilter,
  page: { limit: number; after?: MonitorPosition },
): Promise<MonitorPage> {
  const { indexed, scanned } = conditionsOf(filter);
  const list: List = { db, projectId, indexed, scanned };
  const monitors: MonitorRecord[] = [];
  let after = page.after;
  for (let count = 0; count < MAX_STRETCHES; count += 1) {
    // The end is read first: a monitor that is created meanwhile is in this stretch or the next, never between them.
    const end = scanned.length === 0 ? undefined : await findStretchEnd(list, after);
    const wanted = page.limit - monitors.length;
    const found = await readStretch(list, { after, end }, wanted + 1);
    monitors.push(...found.slice(0, wanted));
    const last = monitors.at(-1);
    if (found.length > wanted && last) return { monitors, next: positionOf(last) };
    if (!end) return { monitors };
    after = end;
  }
  return { monitors, next: after };
}

interface List {
  db: Queryable;
  projectId: string;
  indexed: readonly Condition[];
  scanned: readonly Condition[];
}

/**
 * Splits a filter: conditions that an index answers (monitors_labels, monitors_inactive, …), and conditions that need a
 * scan.
 */
function conditionsOf(filter: MonitorFilter): { indexed: Condition[]; scanned: Condition[] } {
  const { lifecycle, health, labels = [], namePrefix, jurisdiction, origin } = filter;
  const indexed = labels.map(
    ({ key, value }): Condition => ['m.labels @> $::jsonb', JSON.stringify({ [key]: value })],
  );
  const scanned: Condition[] = [];
  if (namePrefix) indexed.push(['m.name_key like $', `${escapeLike(nameKeyOf(namePrefix))}%`]);
  if (origin) indexed.push(...originConditions(origin));
  if (jurisdiction) scanned.push(['m.jurisdiction = $', jurisdiction]);
  if (lifecycle === 'active') scanned.push(["m.lifecycle = 'active'"]);
  else if (lifecycle) indexed.push([inactive(lifecycle)]);
  if (health) {
    indexed.push(...HEALTH[health].indexed.map((sql): Condition => [sql]));
    scanned.push(...HEALTH[health].scanned.map((sql): Condition => [sql]));
  }
  return { indexed, scanned };
}

// In this form Postgres recognizes the condition of monitors_orphaned, and of monitors_origin.
function originConditions(origin: Origin | 'orphaned'): Condition[] {
  if (origin === 'orphaned') return [['m.orphaned_at is not null'], ["m.lifecycle <> 'archived'"]];
  return [
    ['m.origin_kind = $', origin.kind],
    ['m.origin_namespace = $', origin.namespace],
    ['m.origin_name = $', origin.name],
  ];
}

// In this form Postgres recognizes the condition of the partial index.
function inactive(lifecycle: Exclude<Lifecycle, 'active'>): string {
  return `m.lifecycle <> 'active' and m.lifecycle = '${lifecycle}'`;
}

const NOW = fromMillis('clock.now_ms');
const IN_WINDOW = `(m.maintenance_starts_at <= ${NOW} and ${NOW} < m.maintenance_ends_at
  or l.recurs_from_ms <= clock.now_ms and clock.now_ms < l.recurs_until_ms)`;
const WATCHED = `m.lifecycle = 'active' and ${IN_WINDOW} is not true`;
const LATE_MS = `m.grace_seconds::bigint * case when m.schedule_cron is null then 1000 else 500 end`;
const LATE = `(l.deadline_ms is not null
  and (l.missed_count > 0 or clock.now_ms >= l.deadline_ms - ${LATE_MS}))`;
const HAS_INCIDENT = `m.monitor_key in (select i.monitor_key from incidents i
  where i.project_id = $1 and i.state in ('open', 'recovering'))`;

function grave(states: string): string {
  return `exists (select from incidents i where i.project_id = m.project_id and i.monitor_key = m.monitor_key
    and i.state in (${states}) and (i.kind <> 'rule_violation' or i.severity = 'critical'))`;
}
const IS_DOWN = grave("'open'");
const IS_GRAVE = grave("'open', 'recovering'");

/** The decision of domain/health.ts in SQL; a test compares the two. */
const HEALTH: Record<Health, { indexed: string[]; scanned: string[] }> = {
  paused: { indexed: [inactive('paused')], scanned: [] },
  archived: { indexed: [inactive('archived')], scanned: [] },
  maintenance: {
    // In this form Postgres recognizes the condition of the partial index.
    indexed: [
      '(m.maintenance_ends_at is not null or m.maintenance_schedules is not null)',
      "m.lifecycle = 'active'",
    ],
    scanned: [IN_WINDOW],
  },
  down: { indexed: [HAS_INCIDENT, IS_DOWN], scanned: [WATCHED] },
  recovering: { indexed: [HAS_INCIDENT, `not ${IS_DOWN}`, IS_GRAVE], scanned: [WATCHED] },
  late: { indexed: [], scanned: [WATCHED, `not ${IS_GRAVE}`, LATE] },
  waiting: { indexed: [], scanned: [WATCHED, `not ${IS_GRAVE}`, `not ${LATE}`, 'l.first_beat_ms is null'] },
  up: { indexed: [], scanned: [WATCHED, `not ${IS_GRAVE}`, `not ${LATE}`, 'l.first_beat_ms is not null'] },
};

const PLACE = '(m.name_key, m.monitor_id, m.jurisdiction)';
const ORDER = 'order by m.name_key, m.monitor_id, m.jurisdiction';

/** The last monitor of the stretch after `after`; undefined when the list ends in that stretch. */
async function findStretchEnd(list: List, after: MonitorPosition | undefined) {
  const { where, query } = whereOf(list, list.indexed, { after });
  const { rows } = await list.db.query<{ name_key: string; monitor_id: string; jurisdiction: Jurisdiction }>(
    // Indexed conditions use the clock: the same FROM as in readStretch provides it.
    `${WITH_CLOCK} select m.name_key, m.monitor_id, m.jurisdiction from clock, monitors m
     ${where} ${ORDER} offset ${STRETCH - 1} limit 1`,
    query.values,
  );
  const row = rows[0];
  return row && { nameKey: row.name_key, monitorId: row.monitor_id, jurisdiction: row.jurisdiction };
}

/** At least `limit` monitors, if there are so many. */
async function readStretch(
  list: List,
  bounds: { after?: MonitorPosition; end?: MonitorPosition },
  limit: number,
): Promise<MonitorRecord[]> {
  const { where, query } = whereOf(list, [...list.indexed, ...list.scanned], bounds);
  const { size } = sizeFor(limit);
  const text = `${SELECT_RECORDS} ${where} ${ORDER} limit ${size}`;
  // Planning costs more than reading a page of the whole list. With a filter only its values show which index is best, and
  // each set of filters would be one more statement that every connection keeps for ever.
  const isWhole = list.indexed.length === 0 && list.scanned.length === 0;
  const name = isWhole ? `list-monitors-${size}-${bounds.after ? 'after' : 'first'}` : undefined;
  const { rows } = await list.db.query({ name, text, values: query.values });
  return rows.map(toMonitorRecord);
}

function whereOf(
  list: List,
  conditions: readonly Condition[],
  { after, end }: { after?: MonitorPosition; end?: MonitorPosition },
): { where: string; query: ListQuery } {
  const query = new ListQuery();
  const place = ({ nameKey, monitorId, jurisdiction }: MonitorPosition) =>
    `(${query.bind(nameKey)}, ${query.bind(monitorId)}, ${query.bind(jurisdiction)})`;
  // Other conditions use $1 for the project.
  let where = query.where([['m.project_id = $', list.projectId], ...conditions]);
  if (after) where += ` and ${PLACE} > ${place(after)}`;
  if (end) where += ` and ${PLACE} <= ${place(end)}`;
  return { where, query };
}

function escapeLike(text: string): string {
  return text.replaceAll(/[\\%_]/g, (sign) => `\\${sign}`);
}

/** Where a monitor is in the list. */
export function positionOf(monitor: MonitorRecord): MonitorPosition {
  const { configuration, monitorId, jurisdiction } = monitor;
  return { nameKey: nameKeyOf(configuration.name), monitorId, jurisdiction };
}

/** The position of a monitor now; undefined when it is deleted. For cursors that are too short for a long name. */
export async function findMonitorPosition(
  db: Queryable,
  projectId: string,
  { monitorId, jurisdiction }: { monitorId: string; jurisdiction: Jurisdiction },
): Promise<MonitorPosition | undefined> {
  const { rows } = await db.query<{ name_key: string }>(
    'select name_key from monitors where project_id = $1 and monitor_id = $2 and jurisdiction = $3',
    [projectId, monitorId, jurisdiction],
  );
  const row = rows[0];
  return row && { nameKey: row.name_key, monitorId, jurisdiction };
}
