// Reads what the product wrote, as Postgres names its columns.
import type pg from 'pg';
import type { SeedMonitor } from './seed.ts';

type Db = Pick<pg.Pool, 'query'>;
type MonitorRef = Pick<SeedMonitor, 'monitorKey'>;

export async function liveOf(db: Db, { monitorKey }: MonitorRef) {
  const { rows } = await db.query('select * from monitor_live where monitor_key = $1', [monitorKey]);
  return rows[0];
}

export async function observationsOf(db: Db, { monitorKey }: MonitorRef) {
  const text = 'select * from observations where monitor_key = $1 order by sequence';
  return (await db.query(text, [monitorKey])).rows;
}

export async function incidentsOf(db: Db, { monitorKey }: MonitorRef) {
  const text = 'select * from incidents where monitor_key = $1 order by opened_at';
  return (await db.query(text, [monitorKey])).rows;
}

export async function timelineOf(db: Db, incidentId: string | undefined) {
  const text = `select type, delivery, detail from (
      select at, entry_id, type, delivery, detail from timeline_entries where incident_id = $1
      union all
      select opened_at, '00000000-0000-0000-0000-000000000000', 'opened', null, opened_detail
      from incidents where incident_id = $1) t
    order by at, entry_id`;
  return (await db.query(text, [incidentId])).rows;
}
