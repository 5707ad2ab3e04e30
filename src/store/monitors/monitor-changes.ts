// Change records: one row a configuration version, never changed. Written in the transaction of the change.
import type { Actor } from '../../domain/incident.ts';
import type { LifecycleAction } from '../../domain/lifecycle.ts';
import type { Lifecycle } from '../../domain/monitor.ts';
import type { Queryable } from '../postgres/pool.ts';
import type { MonitorRef } from './live.ts';
import type { MaintenanceWindow } from './monitor-record.ts';

export type ChangeKind =
  | { kind: 'configuration' }
  | {
      kind: 'lifecycle';
      action: LifecycleAction;
      from: Lifecycle;
      to: Lifecycle;
      /** Of `enter_maintenance`. */
      maintenance?: MaintenanceWindow;
    };

export interface ChangeRecord {
  change: ChangeKind;
  configurationVersion: number;
  actor: Actor;
  /** ms. */
  occurredMs: number;
  sourceRequestId?: string;
}

export interface ConfigurationRecord extends ChangeRecord {
  /** As it is after the change, without addresses and secrets. */
  configuration: object;
}

/** A new monitor's first record is written with the monitor (monitors.ts). */
export async function insertChange(
  tx: Queryable,
  ref: MonitorRef,
  record: ConfigurationRecord,
): Promise<void> {
  const { change } = record;
  const lifecycle = change.kind === 'lifecycle' ? change : undefined;
  await tx.query({
    name: 'insert-change',
    text: `insert into monitor_changes (project_id, monitor_key, configuration_version, kind, action, lifecycle_from,
        lifecycle_to, maintenance, configuration, actor, occurred_at, source_request_id)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, to_timestamp($11 / 1000.0), $12)`,
    values: [
      ref.projectId,
      ref.monitorKey,
      record.configurationVersion,
      change.kind,
      lifecycle?.action,
      lifecycle?.from,
      lifecycle?.to,
      lifecycle?.maintenance && JSON.stringify(lifecycle.maintenance),
      JSON.stringify(record.configuration),
      JSON.stringify(record.actor),
      record.occurredMs,
      record.sourceRequestId,
    ],
  });
}

interface Columns {
  configuration_version: number;
  kind: 'configuration' | 'lifecycle';
  action: LifecycleAction | null;
  lifecycle_from: Lifecycle | null;
  lifecycle_to: Lifecycle | null;
  maintenance: MaintenanceWindow | null;
  actor: Actor;
  occurred_ms: number;
  source_request_id: string | null;
}

/** Newest first; `before` is the configuration version of the last record of the page before. */
export async function listChanges(
  db: Queryable,
  ref: MonitorRef,
  page: { limit: number; before?: number },
): Promise<ChangeRecord[]> {
  const { rows } = await db.query<Columns>({
    name: 'list-changes',
    text: `select configuration_version, kind, action, lifecycle_from, lifecycle_to, maintenance, actor,
        (extract(epoch from occurred_at) * 1000)::bigint as occurred_ms, source_request_id
      from monitor_changes
      where project_id = $1 and monitor_key = $2 and configuration_version < $3
      order by configuration_version desc limit $4`,
    values: [ref.projectId, ref.monitorKey, page.before ?? 2_147_483_647, page.limit],
  });
  return rows.map((row) => ({
    change: toChangeKind(row),
    configurationVersion: row.configuration_version,
    actor: row.actor,
    occurredMs: row.occurred_ms,
    sourceRequestId: row.source_request_id ?? undefined,
  }));
}

function toChangeKind(row: Columns): ChangeKind {
  const { action, lifecycle_from: from, lifecycle_to: to } = row;
  if (action === null || from === null || to === null) return { kind: 'configuration' };
  return { kind: 'lifecycle', action, from, to, maintenance: row.maintenance ?? undefined };
}
