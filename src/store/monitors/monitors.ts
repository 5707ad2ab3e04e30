// Finds monitors and writes their configuration; monitor-list.ts has the lists. Lock order of every writer: the live
// row (lockLive), then the monitor's row, then the rows that depend on it, last the organization's counter.
import type { Jurisdiction, LiveState } from '../../domain/monitor.ts';
import { foldCase } from '../../domain/name-key.ts';
import type { ServiceState } from '../../domain/problem.ts';
import type { EndpointRef } from '../callbacks/callback-endpoints.ts';
import { type Bind, sql, statement } from '../postgres/columns.ts';
import { isDistributed } from '../postgres/engine.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { type MonitorRef, sweepBucketOf } from './live.ts';
import { recordChanges } from './live-changes.ts';
import type { ConfigurationRecord } from './monitor-changes.ts';
import {
  CHANGEABLE,
  MONITOR,
  type MonitorRecord,
  type MonitorRow,
  SELECT_RECORDS,
  toMonitorRecord,
} from './monitor-record.ts';

/** The name under which a caller asks for a monitor. */
export interface MonitorName {
  projectId: string;
  monitorId: string;
  /** Required where the id exists in more than one jurisdiction. */
  jurisdiction?: Jurisdiction;
}

/** The keys of the monitors with that name: none, one, or several where the name has no jurisdiction. */
export async function findMonitorRefs(db: Queryable, name: MonitorName): Promise<MonitorRef[]> {
  const { rows } = await db.query<{ monitor_key: string }>({
    name: 'find-monitor-refs',
    text: `select monitor_key from monitors
      where project_id = $1 and monitor_id = $2 and ($3::text is null or jurisdiction = $3)`,
    values: [name.projectId, name.monitorId, name.jurisdiction],
  });
  return rows.map((row) => ({ projectId: name.projectId, monitorKey: row.monitor_key }));
}

/** The records of those monitors. */
export async function findMonitors(db: Queryable, name: MonitorName): Promise<MonitorRecord[]> {
  const { rows } = await db.query({
    name: 'find-monitors',
    text: `${SELECT_RECORDS}
      where m.project_id = $1 and m.monitor_id = $2 and ($3::text is null or m.jurisdiction = $3)`,
    values: [name.projectId, name.monitorId, name.jurisdiction],
  });
  return rows.map(toMonitorRecord);
}

/**
 * Reads a monitor whose live row the caller locked in an earlier statement. The snapshot of this statement is newer than
 * the lock, so it reads the state that the lock protects.
 */
export async function findLockedMonitor(tx: Queryable, ref: MonitorRef): Promise<MonitorRecord | undefined> {
  const { rows } = await tx.query({
    name: 'find-locked-monitor',
    text: `${SELECT_RECORDS} where m.project_id = $1 and m.monitor_key = $2`,
    values: [ref.projectId, ref.monitorKey],
  });
  return rows[0] && toMonitorRecord(rows[0]);
}

/** The name of the monitor whose inline binding has that endpoint; undefined for an endpoint that people manage. */
export async function findInlineMonitor(
  db: Queryable,
  { projectId, endpointId }: EndpointRef,
): Promise<Required<MonitorName> | undefined> {
  const { rows } = await db.query<{ monitor_id: string; jurisdiction: Jurisdiction }>(
    `select m.monitor_id, m.jurisdiction from callback_endpoints e join monitors m using (project_id, monitor_key)
     where e.project_id = $1 and e.endpoint_id = $2`,
    [projectId, endpointId],
  );
  const [row] = rows;
  return row && { projectId, monitorId: row.monitor_id, jurisdiction: row.jurisdiction };
}

/** Names are ordered and searched by this key, which ignores case. */
export function nameKeyOf(name: string): string {
  return foldCase(name);
}

interface NewMonitor {
  monitor: MonitorRow & {
    live: Pick<LiveState, 'wakeMs' | 'deadlineMs' | 'anchorMs' | 'recursFromMs' | 'recursUntilMs'>;
  };
  record: Pick<ConfigurationRecord, 'configuration' | 'actor' | 'sourceRequestId'>;
}

const INSERT = statement(
  'insert-monitor',
  (bind: Bind<NewMonitor>) => `with monitor as (
    insert into monitors (${sql.names(MONITOR)}, name_key, created_at)
    values (${sql.parameters(MONITOR, bind, ({ monitor }) => monitor)},
      ${bind(({ monitor }) => nameKeyOf(monitor.configuration.name))},
      ${fromMillis(bind(({ monitor }) => monitor.updatedMs))})
    on conflict do nothing
    returning project_id, monitor_key, configuration_version, publish_address, created_at),
  live as (
    insert into monitor_live
      (project_id, monitor_key, sweep_bucket, configuration_version, wake_ms, deadline_ms, anchor_ms, recurs_from_ms,
        recurs_until_ms)
    select project_id, monitor_key, ${bind(({ monitor }) => sweepBucketOf(monitor.monitorKey))}, configuration_version,
      ${bind(({ monitor }) => monitor.live.wakeMs)}, ${bind(({ monitor }) => monitor.live.deadlineMs)},
      ${bind(({ monitor }) => monitor.live.anchorMs)}, ${bind(({ monitor }) => monitor.live.recursFromMs)},
      ${bind(({ monitor }) => monitor.live.recursUntilMs)}
    from monitor),
  changes as (${recordChanges('monitor')}),
  address as (
    insert into publish_addresses (address, project_id, monitor_key)
    select publish_address, project_id, monitor_key from monitor),
  change as (
    insert into monitor_changes
      (project_id, monitor_key, configuration_version, kind, configuration, actor, occurred_at, source_request_id)
    select project_id, monitor_key, configuration_version, 'configuration',
      ${bind(({ record }) => JSON.stringify(record.configuration))}, ${bind(({ record }) => JSON.stringify(record.actor))},
      created_at, ${bind(({ record }) => record.sourceRequestId)}
    from monitor)
  select from monitor`,
);

/**
 * Inserts a monitor with its live row, its address and its first change record, in one statement.
 * Returns false, and writes nothing, when the id is taken in its jurisdiction, or the origin in its project.
 */
export async function insertMonitor(
  tx: Queryable,
  monitor: NewMonitor['monitor'],
  record: NewMonitor['record'],
): Promise<boolean> {
  const { rowCount } = await tx.query(INSERT({ monitor, record }));
  return rowCount === 1;
}

const UPDATE = statement(
  'update-monitor',
  (bind: Bind<MonitorRow>) => `update monitors set (${sql.names(CHANGEABLE)}, name_key) =
      row (${sql.parameters(CHANGEABLE, bind, (monitor) => monitor)},
        ${bind(({ configuration }) => nameKeyOf(configuration.name))})
    where project_id = ${bind(({ projectId }) => projectId)} and monitor_key = ${bind(({ monitorKey }) => monitorKey)}`,
);

/** Writes every column that may change. The caller has locked the live row. */
export async function updateMonitor(tx: Queryable, monitor: MonitorRow): Promise<void> {
  await tx.query(UPDATE(monitor));
}

const OF_MONITOR = 'project_id = $1 and monitor_key = $2';
/** The tables that a deleted monitor leaves, but for its own row. */
const LEFT_BY_MONITOR = {
  addresses: 'publish_addresses',
  changes: 'monitor_changes',
  keys: 'beat_keys',
  drafts: 'drafts',
};
const deleteOf = (table: string) => `delete from ${table} where ${OF_MONITOR}`;
const MARK_INCIDENTS = `update incidents set monitor_deleted_at = ${fromMillis('$3')}
         where project_id = $1 and monitor_key = $2 and incident_id in (
           select i.incident_id from monitors m join incidents i
             on i.project_id = m.project_id and i.monitor_id = m.monitor_id and i.state in ('recovered', 'resolved')
           where m.project_id = $1 and m.monitor_key = $2
           union all
           select incident_id from incidents
           where project_id = $1 and monitor_key = $2 and state in ('open', 'recovering'))`;

/**
 * Deletes a monitor and everything that is reached only through it. Its incidents get the mark `nowMs` and stay readable
 * until the sweeper deletes them. Its observations are unreachable and go with their partition. The caller has locked
 * the live row.
 */
export async function deleteMonitor(tx: Queryable, ref: MonitorRef, nowMs: number): Promise<void> {
  const keys = [ref.projectId, ref.monitorKey];
  const left = Object.entries(LEFT_BY_MONITOR);
  if (isDistributed()) {
    // Citus runs each CTE by itself, in an order of its own: the incidents are found by the monitor's row.
    await tx.query(MARK_INCIDENTS, [...keys, nowMs]);
    for (const table of [...Object.values(LEFT_BY_MONITOR), 'monitor_live', 'monitors'])
      await tx.query(deleteOf(table), keys);
    return;
  }
  await tx.query(
    `with ${left.map(([name, table]) => `${name} as (${deleteOf(table)})`).join(', ')},
       incidents as (${MARK_INCIDENTS}),
       live as (${deleteOf('monitor_live')})
     ${deleteOf('monitors')}`,
    [...keys, nowMs],
  );
}

export interface OrganizationStanding {
  planId: string;
  serviceState: ServiceState;
  projectName: string;
}

/** Plan and state of a project's organization. Undefined when the project does not belong to the organization. */
export async function findStanding(
  db: Queryable,
  of: { organizationId: string; projectId: string },
): Promise<OrganizationStanding | undefined> {
  const { rows } = await db.query<{ plan: string; service_state: ServiceState; name: string }>({
    name: 'find-standing',
    text: `select o.plan, o.service_state, p.name from projects p
      join organizations o on o.organization_id = p.organization_id
      where p.project_id = $1 and p.organization_id = $2`,
    values: [of.projectId, of.organizationId],
  });
  const row = rows[0];
  return row && { planId: row.plan, serviceState: row.service_state, projectName: row.name };
}

/**
 * Counts one more active monitor; false when `limit` is reached. Call it last in a transaction, because it locks the
 * organization's row until the commit.
 */
export async function takeMonitorSlot(
  tx: Queryable,
  organizationId: string,
  limit: number,
): Promise<boolean> {
  const { rowCount } = await tx.query({
    name: 'take-monitor-slot',
    text: `update organizations set active_monitors = active_monitors + 1
      where organization_id = $1 and active_monitors + monitors_elsewhere < $2`,
    values: [organizationId, limit],
  });
  return rowCount === 1;
}

/** Counts monitors out that were archived or deleted. Call it last, like takeMonitorSlot. */
export async function freeMonitorSlots(tx: Queryable, organizationId: string, count: number): Promise<void> {
  await tx.query({
    name: 'free-monitor-slots',
    text: `update organizations set active_monitors = greatest(0, active_monitors - $2)
      where organization_id = $1`,
    values: [organizationId, count],
  });
}

export async function countActiveMonitors(db: Queryable, organizationId: string): Promise<number> {
  const { rows } = await db.query<{ active_monitors: number }>(
    'select active_monitors + monitors_elsewhere as active_monitors from organizations where organization_id = $1',
    [organizationId],
  );
  return rows[0]?.active_monitors ?? 0;
}

/** The keys of those of the monitors that have had their first beat, or are deleted. */
export async function findBegunMonitors(db: Queryable, refs: readonly MonitorRef[]): Promise<Set<string>> {
  const { rows } = await db.query<{ monitor_key: string }>({
    name: 'find-begun-monitors',
    text: `select k.monitor_key from unnest($1::uuid[], $2::uuid[]) as k (project_id, monitor_key)
      left join monitor_live l on l.project_id = k.project_id and l.monitor_key = k.monitor_key
      where l.monitor_key is null or l.first_beat_ms is not null`,
    values: [refs.map((ref) => ref.projectId), refs.map((ref) => ref.monitorKey)],
  });
  return new Set(rows.map((row) => row.monitor_key));
}
