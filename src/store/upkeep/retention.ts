// Deletes rows whose time is over, in bounded statements: each deletes at most `limit` rows and returns their number,
// so that the caller continues until there are fewer. Observations are dropped with their partitions.

import { DAY_MS, IDEMPOTENCY_HOURS, KEPT_DAYS } from '../../domain/retention.ts';
import type { MonitorRef } from '../monitors/live.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { readNow } from '../postgres/transaction.ts';
import { deleteOutages } from './service-clock.ts';

const OUTAGES_KEPT_MS = KEPT_DAYS.serviceOutages * DAY_MS;

/** Deletes at most `limit`; returns how many. */
export type Retire = (db: Queryable, limit: number) => Promise<number>;

export interface RetentionRule {
  /** Named in metrics and in the log. */
  what: string;
  retire: Retire;
}

const old = (column: string, age: string) => `${column} < clock_timestamp() - interval '${age}'`;

/** CTEs that delete the rows that depend on those of `gone`, which have the columns `keys`. */
interface Hanging {
  keys: string;
  ctes: string;
}

const NOTHING: Hanging = { keys: '1', ctes: '' };

/** Deletes the rows of a table for which `where` holds, and in the same statement the rows that depend on them. */
const retire =
  (table: string, where: string, { keys, ctes }: Hanging = NOTHING): Retire =>
  async (db, limit) => {
    const { rows } = await db.query<{ count: number }>(
      `with gone as (
         delete from ${table} where ctid = any (array(select ctid from ${table} where ${where} limit $1))
         returning ${keys})${ctes}
       select count(*)::integer as count from gone`,
      [limit],
    );
    return rows[0]?.count ?? 0;
  };

/** The address by which the api finds it. */
const ofCredential: Hanging = {
  keys: 'credential_id',
  ctes: `, addresses as (
    delete from credential_addresses a using gone where a.credential_id = gone.credential_id)`,
};

const ofDelivery: Hanging = {
  keys: 'project_id, delivery_id',
  ctes: `, attempts as (
    delete from delivery_attempts a using gone
    where a.project_id = gone.project_id and a.delivery_id = gone.delivery_id)`,
};

const ofIncident: Hanging = {
  keys: 'project_id, incident_id',
  ctes: `, entries as (
    delete from timeline_entries t using gone
    where t.project_id = gone.project_id and t.incident_id = gone.incident_id),
  sent as (
    delete from deliveries d using gone
    where d.project_id = gone.project_id and d.incident_id = gone.incident_id
    returning d.project_id, d.delivery_id),
  attempts as (
    delete from delivery_attempts a using sent
    where a.project_id = sent.project_id and a.delivery_id = sent.delivery_id)`,
};

/** They are few. */
const retireOutages: Retire = async (db) => {
  await deleteOutages(db, (await readNow(db)) - OUTAGES_KEPT_MS);
  return 0;
};

const ENDED_LONG_AGO = `ended and seen_ms < ${NOW_MS} - 86400000
  and seen_ms < (select max(seen_ms) from service_clock)`;

/** In no order: none depends on another. Windows of the rate limit go into the usage (tenancy/rate-windows.ts). */
export const RETENTION_RULES: readonly RetentionRule[] = [
  {
    what: 'idempotency_records',
    retire: retire('idempotency_records', old('created_at', `${IDEMPOTENCY_HOURS.calls} hours`)),
  },
  // docs/contract/callbacks.md: the overlap of a rotation (index signing_secrets_ended).
  {
    what: 'signing_secrets',
    retire: retire('signing_secrets', 'ends_at is not null and ends_at < clock_timestamp()'),
  },
  { what: 'beat_keys', retire: retire('beat_keys', 'expires_at < clock_timestamp()') },
  {
    what: 'publish_addresses',
    retire: retire('publish_addresses', 'ends_at is not null and ends_at < clock_timestamp()'),
  },
  // A removed endpoint's changes can be read for 30 days (docs/contract/callbacks.md).
  { what: 'endpoint_changes', retire: retire('endpoint_changes', 'expires_at < clock_timestamp()') },
  // Without the row of its lane an api cannot find out whether a batch was committed: it must have ended by then.
  { what: 'ingest_lanes', retire: retire('ingest_lanes', old('updated_at', '30 days')) },
  { what: 'service_outages', retire: retireOutages },
  // The newest row says when the last api ended.
  { what: 'service_clock', retire: retire('service_clock', ENDED_LONG_AGO) },
  // A revoked credential can be read for 30 days (docs/contract/tenancy.md).
  {
    what: 'credentials',
    retire: retire('credentials', old('revoked_at', `${KEPT_DAYS.revokedCredentials} days`), ofCredential),
  },
  // The ids of events that were applied (docs/contract/organization.md).
  {
    what: 'billing_events',
    retire: retire('billing_events', old('received_at', `${KEPT_DAYS.billingEvents} days`)),
  },
  {
    what: 'billing_charges',
    retire: retire('billing_charges', old('received_at', `${KEPT_DAYS.billingCharges} days`)),
  },
  // They are few.
  {
    what: 'billing_disputes',
    retire: retire('billing_disputes', old('said_at', `${KEPT_DAYS.billingCharges} days`)),
  },
  // Deliveries of deleted monitors have ended: the deletion cancels them.
  {
    what: 'deliveries',
    retire: retire('deliveries', old('ended_at', `${KEPT_DAYS.deliveries} days`), ofDelivery),
  },
  // Incidents of deleted monitors, with the rows that depend on them. Incidents of existing monitors stay.
  {
    what: 'incidents',
    retire: retire('incidents', old('monitor_deleted_at', `${KEPT_DAYS.incidents} days`), ofIncident),
  },
];

/** Archived monitors that can no longer be restored, the oldest first (index monitors_restorable). */
export async function findExpiredMonitors(db: Queryable, limit: number): Promise<MonitorRef[]> {
  const { rows } = await db.query<{ project_id: string; monitor_key: string }>(
    `select project_id, monitor_key from monitors
     where restorable_until is not null and restorable_until <= clock_timestamp()
     order by restorable_until limit $1`,
    [limit],
  );
  return rows.map((row) => ({ projectId: row.project_id, monitorKey: row.monitor_key }));
}
