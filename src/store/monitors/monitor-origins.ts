// Origins of monitors (docs/contract/monitors.md, "Origin"): which monitor stands for an object, and which objects are
// gone. The columns are those of the monitor's row: whoever writes them has locked its live row.
import type { MonitorOrigin, Origin } from '../../domain/origin.ts';
import { type Bind, type Columns, rowReader, sql, statement } from '../postgres/columns.ts';
import { inShard, ofProjects } from '../postgres/engine.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { MONITOR_REF, type MonitorRef, touchLiveSql } from './live.ts';
import { CHANGEABLE } from './monitor-record.ts';

export interface OriginHolder extends MonitorRef {
  monitorId: string;
}

/** The monitor of the project that has the origin (index monitors_origin). */
export async function findOriginHolder(
  db: Queryable,
  projectId: string,
  { kind, namespace, name }: Origin,
): Promise<OriginHolder | undefined> {
  const { rows } = await db.query<{ monitor_key: string; monitor_id: string }>({
    name: 'find-origin-holder',
    text: `select monitor_key, monitor_id from monitors
      where project_id = $1 and origin_kind = $2 and origin_namespace = $3 and origin_name = $4`,
    values: [projectId, kind, namespace, name],
  });
  const [row] = rows;
  return row && { projectId, monitorKey: row.monitor_key, monitorId: row.monitor_id };
}

type Declared = MonitorRef & { origin?: MonitorOrigin };
const DECLARED: Columns<Declared> = { ...MONITOR_REF, origin: CHANGEABLE.origin };
const toDeclared = rowReader(DECLARED);

const FIND = statement(
  'find-origins',
  (bind: Bind<readonly MonitorRef[]>) => `select ${sql.select(DECLARED, 'm')} from monitors m
    where (m.project_id, m.monitor_key) in (select * from ${sql.unnest(MONITOR_REF, bind, (refs) => refs)})${inShard('m', bind, (refs) => refs)}
      and m.origin_kind is not null`,
);

/** The origins of those of the monitors that have one, by monitor key. */
export async function findOrigins(
  db: Queryable,
  refs: readonly MonitorRef[],
): Promise<Map<string, MonitorOrigin>> {
  if (refs.length === 0) return new Map();
  const { rows } = await db.query(FIND(refs));
  return new Map(
    rows.map(toDeclared).flatMap(({ monitorKey, origin }) => (origin ? [[monitorKey, origin]] : [])),
  );
}

/** Monitors by id whose objects are gone, and whose objects are there. */
export interface OriginReport {
  orphaned: readonly string[];
  seen: readonly string[];
}

/** The monitors with an origin that the report would change. No archived one becomes orphaned: its object may have ended it. */
export async function findReported(
  db: Queryable,
  projectId: string,
  { orphaned, seen }: OriginReport,
): Promise<MonitorRef[]> {
  const { rows } = await db.query<{ monitor_key: string }>({
    name: 'find-reported-origins',
    text: `select monitor_key from monitors
      where project_id = $1 and monitor_id = any ($2::text[] || $3::text[]) and origin_kind is not null
        and (monitor_id = any ($2)) = (orphaned_at is null)
        and (lifecycle <> 'archived' or orphaned_at is not null)`,
    values: [projectId, orphaned, seen],
  });
  return rows.map((row) => ({ projectId, monitorKey: row.monitor_key }));
}

/**
 * Writes a report at `nowMs` into those of the monitors that it changes, and marks them as changed for the status feed.
 * The caller has locked their live rows.
 */
export async function writeReport(
  tx: Queryable,
  refs: readonly MonitorRef[],
  { orphaned }: OriginReport,
  nowMs: number,
): Promise<{ orphaned: number; seen: number }> {
  const { rows } = await tx.query<{ is_orphaned: boolean }>(
    `with marked as (
       update monitors m
       set orphaned_at = case when m.monitor_id = any ($3) then ${fromMillis('$4::bigint')} end
       where (m.project_id, m.monitor_key) in (select * from unnest($1::uuid[], $2::uuid[]))${ofProjects('m', '$1')}
         and m.origin_kind is not null and (m.monitor_id = any ($3)) = (m.orphaned_at is null)
         and (m.lifecycle <> 'archived' or m.orphaned_at is not null)
       returning m.project_id, m.monitor_key, m.orphaned_at is not null as is_orphaned),
     ${touchLiveSql('marked', ofProjects('l', '$1'))}
     select is_orphaned from marked`,
    [refs.map((ref) => ref.projectId), refs.map((ref) => ref.monitorKey), orphaned, nowMs],
  );
  const count = rows.filter((row) => row.is_orphaned).length;
  return { orphaned: count, seen: rows.length - count };
}
