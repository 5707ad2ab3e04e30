// Change records: one row for each configuration version, written in the transaction of the change and never updated.

import type { Actor } from '../../domain/incident.ts';
import type { LifecycleAction } from '../../domain/lifecycle.ts';
import type { MaintenanceWindow } from '../../domain/maintenance.ts';
import type { Lifecycle, MonitorConfiguration } from '../../domain/monitor.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { MONITOR_REF, type MonitorRef } from './live.ts';
import type { StoredBinding } from './monitor-record.ts';

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

/** Who made a change, when, and by which call. */
export interface ChangeSource {
  actor: Actor;
  occurredMs: number;
  sourceRequestId?: string;
}

export interface ChangeRecord extends ChangeSource {
  change: ChangeKind;
  configurationVersion: number;
}

export interface ConfigurationRecord extends ChangeRecord {
  /** As it is after the change, without addresses and secrets. */
  configuration: object;
}

interface ChangeRow extends Omit<ChangeRecord, 'change'> {
  kind: ChangeKind['kind'];
  action?: LifecycleAction;
  from?: Lifecycle;
  to?: Lifecycle;
  maintenance?: MaintenanceWindow;
}

/** Also of the changes of endpoints. */
export const CHANGE_SOURCE: Columns<ChangeSource> = {
  actor: column.json('actor'),
  occurredMs: column.moment('occurred_at'),
  sourceRequestId: column.quoted('source_request_id', 'text'),
};

const CHANGE: Columns<ChangeRow> = {
  configurationVersion: column.plain('configuration_version', 'integer'),
  kind: column.plain('kind', 'text'),
  action: column.plain('action', 'text'),
  from: column.plain('lifecycle_from', 'text'),
  to: column.plain('lifecycle_to', 'text'),
  maintenance: column.json('maintenance'),
  ...CHANGE_SOURCE,
};
const toChangeRow = rowReader(CHANGE);

const NEW_CHANGE: Columns<MonitorRef & ChangeRow & Pick<ConfigurationRecord, 'configuration'>> = {
  ...MONITOR_REF,
  ...CHANGE,
  configuration: column.json('configuration'),
};

const INSERT = statement(
  'insert-change',
  (bind: Bind<MonitorRef & ChangeRow & Pick<ConfigurationRecord, 'configuration'>>) =>
    `insert into monitor_changes (${sql.names(NEW_CHANGE)}) values (${sql.parameters(NEW_CHANGE, bind, (row) => row)})`,
);

/** The first record of a new monitor is written together with the monitor (monitors.ts). */
export async function insertChange(
  tx: Queryable,
  { projectId, monitorKey }: MonitorRef,
  { change, ...record }: ConfigurationRecord,
): Promise<void> {
  await tx.query(INSERT({ projectId, monitorKey, ...record, ...change }));
}

/** Newest first; `before` is the configuration version of the last record of the page before. */
export async function listChanges(
  db: Queryable,
  ref: MonitorRef,
  page: { limit: number; before?: number },
): Promise<ChangeRecord[]> {
  const { rows } = await db.query({
    name: 'list-changes',
    text: `select ${sql.select(CHANGE, 'c')} from monitor_changes c
      where c.project_id = $1 and c.monitor_key = $2 and c.configuration_version < $3
      order by c.configuration_version desc limit $4`,
    values: [ref.projectId, ref.monitorKey, page.before ?? 2_147_483_647, page.limit],
  });
  return rows.map(toChangeRecord);
}

/** A change with the configuration after it. */
export interface PastChange extends ChangeRecord {
  configuration: MonitorConfiguration & { binding: StoredBinding };
}

const PAST_CHANGE = {
  ...CHANGE,
  configuration: column.json<PastChange['configuration']>('configuration'),
};
const toConfiguration = rowReader<{ configuration: PastChange['configuration'] }>({
  configuration: PAST_CHANGE.configuration,
});

/**
 * The changes up to a moment, oldest first: the newest of them at most `limit`, the newest lifecycle action, and the
 * creation.
 */
export async function listPastChanges(
  db: Queryable,
  ref: MonitorRef,
  { untilMs, limit }: { untilMs: number; limit: number },
): Promise<PastChange[]> {
  const { rows } = await db.query({
    name: 'list-past-changes',
    text: `with c as (
        select * from monitor_changes
        where project_id = $1 and monitor_key = $2 and occurred_at <= ${fromMillis('$3')}),
      wanted as (
        (select * from c order by configuration_version desc limit $4)
        union
        (select * from c where kind = 'lifecycle' order by configuration_version desc limit 1)
        union
        (select * from c order by configuration_version limit 1))
      select ${sql.select(PAST_CHANGE, 'c')} from wanted c order by configuration_version`,
    values: [ref.projectId, ref.monitorKey, untilMs, limit],
  });
  return rows.map((row) => ({ ...toChangeRecord(row), ...toConfiguration(row) }));
}

function toChangeRecord(row: object): ChangeRecord {
  const { kind, action, from, to, maintenance, ...record } = toChangeRow(row);
  if (kind === 'configuration' || !action || !from || !to)
    return { ...record, change: { kind: 'configuration' } };
  return { ...record, change: { kind, action, from, to, maintenance } };
}
