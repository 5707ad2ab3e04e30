// What is deleted when its time is over, in bounded statements: each deletes at most `limit` of its subjects and says
// how many they were, so that the caller goes on until there is less. Observations go with their partitions.
import { readNow } from './clock.ts';
import type { MonitorRef } from './live.ts';
import type { Queryable } from './pool.ts';
import { deleteOutages } from './service-clock.ts';

const OUTAGES_KEPT_MS = 400 * 86_400_000;

/** Deletes at most `limit`; returns how many. */
export type Retire = (db: Queryable, limit: number) => Promise<number>;

export interface RetentionRule {
  /** Named in metrics and in the log. */
  what: string;
  retire: Retire;
}

const old = (column: string, age: string) => `${column} < clock_timestamp() - interval '${age}'`;

const simple =
  (table: string, where: string): Retire =>
  async (db, limit) => {
    const { rowCount } = await db.query(
      `delete from ${table} where ctid = any (array(select ctid from ${table} where ${where} limit $1))`,
      [limit],
    );
    return rowCount ?? 0;
  };

async function countOf(query: Promise<{ rows: { count: number }[] }>): Promise<number> {
  return (await query).rows[0]?.count ?? 0;
}

/** With its address, by which the api finds it. A revoked one can be read for 30 days (completion.md 2.2). */
const retireCredentials: Retire = (db, limit) =>
  countOf(
    db.query(
      `with gone as (
         delete from credentials where ctid = any (array(
           select ctid from credentials where ${old('revoked_at', '30 days')} limit $1))
         returning credential_id),
       addresses as (
         delete from credential_addresses a using gone where a.credential_id = gone.credential_id)
       select count(*)::integer as count from gone`,
      [limit],
    ),
  );

/** Ended deliveries with their attempts. Those of deleted monitors have ended: their deletion canceled them. */
const retireDeliveries: Retire = (db, limit) =>
  countOf(
    db.query(
      `with gone as (
         delete from deliveries where ctid = any (array(
           select ctid from deliveries where ${old('ended_at', '30 days')} limit $1))
         returning project_id, delivery_id),
       attempts as (
         delete from delivery_attempts a using gone
         where a.project_id = gone.project_id and a.delivery_id = gone.delivery_id)
       select count(*)::integer as count from gone`,
      [limit],
    ),
  );

/** Incidents of deleted monitors, with all that hangs on them; those of monitors that are there stay. */
const retireIncidents: Retire = (db, limit) =>
  countOf(
    db.query(
      `with gone as (
         delete from incidents where ctid = any (array(
           select ctid from incidents where ${old('monitor_deleted_at', '30 days')} limit $1))
         returning project_id, incident_id),
       entries as (
         delete from timeline_entries t using gone
         where t.project_id = gone.project_id and t.incident_id = gone.incident_id),
       sent as (
         delete from deliveries d using gone
         where d.project_id = gone.project_id and d.incident_id = gone.incident_id
         returning d.project_id, d.delivery_id),
       attempts as (
         delete from delivery_attempts a using sent
         where a.project_id = sent.project_id and a.delivery_id = sent.delivery_id)
       select count(*)::integer as count from gone`,
      [limit],
    ),
  );

/** They are few; history is shown for 400 days. */
const retireOutages: Retire = async (db) => {
  await deleteOutages(db, (await readNow(db)) - OUTAGES_KEPT_MS);
  return 0;
};

/** In no order: none depends on another. Windows of the rate limit are dropped by the apis that count in them. */
export const RETENTION_RULES: readonly RetentionRule[] = [
  // completion.md 2: a window of 24 hours.
  { what: 'idempotency_records', retire: simple('idempotency_records', old('created_at', '24 hours')) },
  { what: 'beat_keys', retire: simple('beat_keys', 'expires_at < clock_timestamp()') },
  {
    what: 'publish_addresses',
    retire: simple('publish_addresses', 'ends_at is not null and ends_at < clock_timestamp()'),
  },
  // An api whose lane has no row can't tell whether a batch was committed: not before it must have ended.
  { what: 'ingest_lanes', retire: simple('ingest_lanes', old('updated_at', '30 days')) },
  { what: 'service_outages', retire: retireOutages },
  { what: 'credentials', retire: retireCredentials },
  { what: 'deliveries', retire: retireDeliveries },
  { what: 'incidents', retire: retireIncidents },
];

/** Archived monitors whose time to be restored is over, the longest first (index monitors_restorable). */
export async function findExpiredMonitors(db: Queryable, limit: number): Promise<MonitorRef[]> {
  const { rows } = await db.query<{ project_id: string; monitor_key: string }>(
    `select project_id, monitor_key from monitors
     where restorable_until is not null and restorable_until <= clock_timestamp()
     order by restorable_until limit $1`,
    [limit],
  );
  return rows.map((row) => ({ projectId: row.project_id, monitorKey: row.monitor_key }));
}
